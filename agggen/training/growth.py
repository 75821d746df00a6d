"""Extends a model by new words and predicates such that its distributions initially stay the same.

Known words and predicates keep their embeddings. New ones start with the embeddings that represented them before:

- A new word has the embedding of [UNK]. The probability of [UNK] is divided equally among [UNK] and the new output
  words, so other probabilities do not change, unless a word that could only be copied becomes an output word.
- A new predicate has the embeddings and stop probabilities of the unknown predicate, which is trained by
  ``model.predicate_dropout``, or, if it repeats a known predicate (``isPartOf_2``), of the known predicate. Thus the
  probabilities of plans do not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from agggen.bundle import Bundle
from agggen.encoding import Encoder
from agggen.records import Record
from agggen.text import Vocabulary


def grown(bundle: Bundle, records: Sequence[Record], min_count: int = 2) -> tuple[Encoder, dict[str, Tensor]]:
    """The encoder and weights of `bundle`, extended by the predicates of `records` and the words that occur in them at
    least `min_count` times. The bundle is not changed.
    """
    encoder, weights = bundle.encoder, dict(bundle.model.state_dict())
    vocabulary = encoder.vocabulary.grown(records, min_count)
    index_of = {word: index for index, word in enumerate(encoder.vocabulary.words)}
    word_of = [index_of.get(word, Vocabulary.UNK) for word in vocabulary.words]
    weights["embedding.weight"] = weights["embedding.weight"][word_of]
    n_output = encoder.vocabulary.n_output
    output_of = [index if index < n_output else Vocabulary.UNK for index in word_of[: vocabulary.n_output]]
    bias = weights["output_bias"][output_of]
    bias[torch.tensor(output_of) == Vocabulary.UNK] -= math.log(output_of.count(Vocabulary.UNK))
    weights["output_bias"] = bias
    back_off = {
        name: id_
        for record in records
        for name, id_ in zip(record.predicates, encoder.predicate_ids(record), strict=True)
        if name not in encoder.predicates
    }
    new_predicates = sorted(back_off)
    predicate_of = [*range(len(encoder.predicates)), *(back_off[name] for name in new_predicates)]
    for name in ("a_in", "b_in", "a_out", "b_out", "stop"):
        table = weights[f"transitions.{name}"]
        start = table[len(encoder.predicates) :]  # the row of the start state, if the table has one
        weights[f"transitions.{name}"] = torch.cat((table[predicate_of], start))
    return replace(encoder, vocabulary=vocabulary, predicates=(*encoder.predicates, *new_predicates)), weights
