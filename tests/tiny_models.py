"""Bundles with random weights: their plans are valid, their texts are nonsense."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agggen.bundle import Bundle, save_bundle
from agggen.encoding import Encoder
from agggen.generation.config import BeamConfig
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Record
from agggen.text import Vocabulary


def tiny_bundle(records: Sequence[Record], seed: int = 5, **fields: Any) -> Bundle:
    """A bundle with the vocabulary and predicates of `records` and groups of at most 3; `fields`: others."""
    vocabulary = Vocabulary.build(records, 1)
    encoder = Encoder(vocabulary, Encoder.predicate_table(records), 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = ModelConfig(width=16, heads=2, layers=1, feed_forward=16, predicate_dim=8, max_group_size=3)
        model = JointModel(sizes, len(vocabulary), vocabulary.n_output, len(encoder.predicates))
    inference = InferenceConfig(plans=2, beam=BeamConfig(beam=2, max_fact_tokens=6))
    return Bundle(model, encoder, inference, **fields)


def save_tiny_bundle(path: Path, records: Sequence[Record], seed: int = 5, **fields: Any) -> Path:
    save_bundle(path, tiny_bundle(records, seed, **fields))
    return path
