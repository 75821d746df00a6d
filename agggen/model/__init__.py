"""The joint model: a Transformer that emits facts (paper section 3.2) under an HMM over plans (sections 3.2-3.3).

`lattice` enumerates the states of a record, `hmm` contains the recursions as pure functions, `transitions` and
`transformer` are the networks, `joint` combines them, `batch` collates encoded examples. The method is described in
``agggen/README.md``.

Shape legend of `agggen.model`:
    B records in a batch      J predicates (= triples) of a record      L predicates in the largest state (paper: 3)
    S ordered states          C distinct sets of predicates             T facts of a text
    M source tokens           N target tokens                           R rows (one fact under one set)
    D model width             H heads                                   V output words
"""
