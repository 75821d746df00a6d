"""The joint model: a Transformer that emits facts (paper section 3.2) under an HMM over plans (sections 3.2-3.3).

`lattice` enumerates the states of a record, `hmm` has the recursions as pure functions, `transitions` and `transformer`
are the networks, `joint` combines them, `batch` collates encoded examples. "METHOD n" in comments and docstrings is a
section of ``agggen/README.md``; "the original" is the authors' released code.

Shape legend of `agggen.model`:
    B records in a batch      J predicates (= triples) of a record      L predicates in the largest state (paper: 3)
    S ordered states          C distinct sets of predicates             T facts of a text
    M source tokens           N target tokens                           R rows (one fact under one set)
    D model width             H heads                                   V output words
"""
