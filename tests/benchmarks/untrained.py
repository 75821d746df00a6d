"""Bundles with random weights for benchmarks. Such a model does not end its facts, so their length is limited."""

from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import torch

from agggen.bundle import Bundle, save_bundle
from agggen.datasets import load_dataset
from agggen.encoding import Encoder
from agggen.facts.config import SegmenterConfig
from agggen.generation.config import BeamConfig
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Record
from agggen.text import Vocabulary

PRESETS = {
    "tiny": (
        "elements",
        ModelConfig(width=32, heads=2, layers=1, feed_forward=32, predicate_dim=8),
        InferenceConfig(plans=2, beam=BeamConfig(beam=2, max_fact_tokens=6)),
    ),
    "webnlg": ("webnlg", ModelConfig(), InferenceConfig(beam=BeamConfig(max_fact_tokens=20))),  # the paper's
}
"""The corpus of vocabulary and predicates, and the settings of the model."""


def untrained(preset: str) -> Bundle:
    """A model with random weights and the vocabulary of its corpus's training texts."""
    corpus, sizes, inference = PRESETS[preset]
    train = load_dataset(corpus, splits=("train",)).split("train")
    vocabulary = Vocabulary.build(train)
    encoder = Encoder(vocabulary, Encoder.predicate_table(train))
    torch.manual_seed(0)
    model = JointModel(sizes, len(vocabulary), vocabulary.n_output, len(encoder.predicates))
    segmenter = SegmenterConfig(source="clauses")
    return Bundle(model, encoder, inference, facts="clauses", segmenter=segmenter)


def save_untrained(preset: str, path: Path) -> Path:
    save_bundle(path, untrained(preset))
    return path


def development_records(corpus: str, count: int) -> list[Record]:
    """`count` records, evenly spread over the development split and repeated if necessary, each with its own id."""
    dev = load_dataset(corpus, splits=("dev",)).split("dev")
    records = islice(cycle(dev[:: max(len(dev) // count, 1)]), count)
    return [replace(record, id=str(number), references=()) for number, record in enumerate(records)]
