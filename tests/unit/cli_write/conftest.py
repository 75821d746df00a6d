"""The bundle that these commands work on, a file of records, and a command in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agggen.bundle import Bundle, save_bundle
from agggen.encoding import Encoder
from agggen.generation.config import BeamConfig
from agggen.generation.generator import InferenceConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Record
from agggen.text import Vocabulary
from tests.unit.cli_write.examples import RESTAURANTS, json_lines

BIGGEST = 3  # the model's L


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [Record.of(record) for record in RESTAURANTS]
    vocabulary = Vocabulary.build(records, 1)
    encoder = Encoder(vocabulary, Encoder.predicate_table(records), BIGGEST)
    torch.manual_seed(5)
    sizes = ModelConfig(width=16, heads=2, layers=1, feed_forward=16, predicate_dim=8, max_group_size=BIGGEST)
    model = JointModel(sizes, len(vocabulary), vocabulary.n_output, len(encoder.predicates))
    inference = InferenceConfig(plans=2, beam=BeamConfig(beam=2, max_fact_tokens=6))
    path = tmp_path_factory.mktemp("model") / "bundle"
    save_bundle(path, Bundle(model, encoder, inference, {}, {"joint.dev_loss": 1.5}, {"toy/train": "ab12"}))
    return path


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return json_lines(tmp_path / "records.jsonl", RESTAURANTS)
