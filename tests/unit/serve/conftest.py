"""What tests of the endpoint share: a tiny bundle over the corpus `elements`, and an engine in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from agggen.bundle import Bundle, fingerprint, load_bundle, save_bundle
from agggen.corpora.elements import elements_records
from agggen.encoding import Encoder
from agggen.errors import AggGenError, PlanError
from agggen.facts.config import SegmenterConfig
from agggen.generation.generator import AlignedText, Generation, InferenceConfig, PlannedRecord
from agggen.generation.search import BeamConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.text import Vocabulary
from serve.engine import Engine, Failure, Job, ModelCard, Text


def save_tiny_model(path: Path, seed: int = 5) -> Path:
    """Saves a bundle with random weights, predicates of `elements` and groups of at most 3; its texts are nonsense."""
    records = list(elements_records("dev"))
    vocabulary = Vocabulary.build(records, "word", 1, 0)
    encoder = Encoder(vocabulary, Encoder.predicate_table(records), 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = ModelConfig(width=16, heads=2, layers=1, feed_forward=16, predicate_dim=8, max_state=3)
        model = JointModel(sizes, len(vocabulary), vocabulary.n_output, len(encoder.predicates))
    inference = InferenceConfig(plans=2, beam=BeamConfig(beam=2, max_fact_tokens=6))
    cut = SegmenterConfig(source="clauses")
    save_bundle(
        path, Bundle(model, encoder, inference, {}, {"joint.dev_loss": 1.5}, {"toy/train": "ab12"}, "corpus", cut)
    )
    return path


@pytest.fixture(scope="session")
def bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that no test may change."""
    return save_tiny_model(tmp_path_factory.mktemp("served") / "bundle")


@pytest.fixture
def engine(bundle_path: Path) -> Engine:
    """An engine that plans and writes with the tiny bundle in this process."""
    return _Direct(bundle_path)


class _Direct:
    """A generator behind the engine's interface, one record at a time."""

    def __init__(self, path: Path) -> None:
        self.path, self.bundle = path, load_bundle(path)
        self.generator = self.bundle.generator()

    async def generate(self, jobs: Sequence[Job], seconds: float) -> list[list[Generation] | Failure]:
        answers: list[list[Generation] | Failure] = []
        for job in jobs:
            try:
                (found,) = self.generator.generate([job.record], [job.plan], job.complete, job.n_best, job.config)
                answers.append(found)
            except AggGenError as error:
                answers.append(_failure(error))
        return answers

    async def plan(self, jobs: Sequence[Job], k: int, seconds: float) -> list[list[PlannedRecord] | Failure]:
        answers: list[list[PlannedRecord] | Failure] = []
        for job in jobs:
            try:
                (found,) = self.generator.plan([job.record], k, job.config.level if job.config else 0)
                answers.append(found)
            except AggGenError as error:
                answers.append(_failure(error))
        return answers

    async def align(self, texts: Sequence[Text], seconds: float) -> list[AlignedText | Failure]:
        answers: list[AlignedText | Failure] = []
        for text in texts:
            try:
                (found,) = self.generator.align([text.record], [text.facts or (text.text,)])
                answers.append(found)
            except AggGenError as error:
                answers.append(_failure(error))
        return answers

    async def card(self) -> ModelCard:
        bundle = self.bundle
        return ModelCard(
            fingerprint(self.path),
            str(self.path),
            bundle.facts,
            bundle.model.config.max_state,
            bundle.inference,
            len(bundle.encoder.predicates),
            dict(bundle.metrics),
            {},
        )


def _failure(error: AggGenError) -> Failure:
    return Failure("plan" if isinstance(error, PlanError) else "record", str(error))
