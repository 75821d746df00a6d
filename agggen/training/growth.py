"""Extends a model by new words and predicates. Until it is trained further, its distributions stay the same.

A new word has the embedding of [UNK]. The probability of [UNK] is divided equally among [UNK] and the new output words,
so other probabilities do not change, unless a word that could only be copied becomes an output word. A new predicate
has the embeddings and stop probabilities of the unknown predicate, which is trained by ``model.predicate_dropout``, or,
if it repeats a known predicate (``isPartOf_2``), of the known predicate.
"""

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
    """The bundle's encoder and weights, extended by the predicates of `records` and words with `min_count` mentions."""
    encoder, weights = bundle.encoder, dict(bundle.model.state_dict())
    vocabulary = encoder.vocabulary.grown(records, min_count)
    index_of = {word: index for index, word in enumerate(encoder.vocabulary.words)}
    old_word_ids = [index_of.get(word, Vocabulary.UNK) for word in vocabulary.words]
    weights["embedding.weight"] = weights["embedding.weight"][old_word_ids]
    n_output = encoder.vocabulary.n_output
    old_output_ids = [index if index < n_output else Vocabulary.UNK for index in old_word_ids[: vocabulary.n_output]]
    bias = weights["output_bias"][old_output_ids]
    bias[torch.tensor(old_output_ids) == Vocabulary.UNK] -= math.log(old_output_ids.count(Vocabulary.UNK))
    weights["output_bias"] = bias
    back_off = {
        name: old_id
        for record in records
        for name, old_id in zip(record.predicates, encoder.predicate_ids(record), strict=True)
        if name not in encoder.predicates
    }
    new_predicates = sorted(back_off)
    old_predicate_ids = [*range(len(encoder.predicates)), *(back_off[name] for name in new_predicates)]
    for name in ("a_in", "b_in", "a_out", "b_out", "stop"):
        table = weights[f"transitions.{name}"]
        start_row = table[len(encoder.predicates) :]  # empty if the table has no row of the start state
        weights[f"transitions.{name}"] = torch.cat((table[old_predicate_ids], start_row))
    return replace(encoder, vocabulary=vocabulary, predicates=(*encoder.predicates, *new_predicates)), weights
