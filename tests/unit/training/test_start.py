"""Training from the weights of another run: same model as a run of both stages; incompatible starts."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agggen.bundle import load_bundle
from agggen.errors import ConfigError
from agggen.run import prepare
from agggen_platform.job_config import JobConfig
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import data_of, default_name, train_job
from agggen_platform.training.prepared import load_or_prepare, read_prepared
from tests.unit.toy_training import same
from tests.unit.training.toy import RECORDS


def without_stage(config: JobConfig, stage: str, **training: Any) -> JobConfig:
    skipped = {stage: replace(config.training.joint, epochs=0)}
    return replace(config, training=replace(config.training, **skipped, **training))


def from_start(config: JobConfig, start: Path, **model: Any) -> JobConfig:
    return replace(without_stage(config, "baseline", start=str(start)), model=replace(config.model, **model))


@pytest.fixture(scope="module")
def start(config: JobConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a plain Transformer (baseline stage only)."""
    return train_job(without_stage(config, "joint"), "plain", runs_dir=tmp_path_factory.mktemp("runs")).path


def test_separate_runs_of_the_stages_train_the_same_model(config: JobConfig, start: Path, tmp_path: Path) -> None:
    both_stages = train_job(config, "whole", runs_dir=tmp_path)
    joint_run = train_job(from_start(config, start), "second", runs_dir=tmp_path)
    result = joint_run.bundle.model.state_dict()
    assert same(both_stages.bundle.model.state_dict(), result)
    before = load_bundle(start).model.state_dict()
    assert not torch.equal(before["embedding.weight"], result["embedding.weight"]), "no joint training"
    assert "start" in joint_run.bundle.sources and "start" not in both_stages.bundle.sources
    assert set(joint_run.bundle.metrics) == {"joint.dev_loss", "joint.updates"}


def test_vocabulary_and_predicates_are_those_of_the_start(config: JobConfig, start: Path) -> None:
    fewer = prepare(from_start(config, start), RECORDS[:4], RECORDS[8:])
    start_encoder = load_bundle(start).encoder
    assert fewer.encoder.predicates == start_encoder.predicates
    assert fewer.encoder.vocabulary.fingerprint == start_encoder.vocabulary.fingerprint
    alone = prepare(config, RECORDS[:4], RECORDS[8:])
    assert alone.encoder.vocabulary.fingerprint != start_encoder.vocabulary.fingerprint, "four records have fewer words"


def test_predicate_embeddings_of_another_size_are_not_taken(config: JobConfig, start: Path, tmp_path: Path) -> None:
    taken = prepare(from_start(config, start), RECORDS[:8], RECORDS[8:]).start
    changed = from_start(config, start, predicate_dim=config.model.predicate_dim + 3)
    kept = prepare(changed, RECORDS[:8], RECORDS[8:]).start
    assert {name for name in taken if name not in kept} == {n for n in taken if n.startswith("transitions.")}
    assert train_job(changed, "wider", runs_dir=tmp_path).trained


def test_workers_read_the_same_start(config: JobConfig, start: Path, tmp_path: Path) -> None:
    folder, second_stage = Folder(str(tmp_path)), from_start(config, start)
    written, place = load_or_prepare(folder, second_stage, data_of(second_stage))
    assert same(read_prepared(folder, place).start, written.start)
    other = replace(second_stage, model=replace(second_stage.model, predicate_dim=second_stage.model.predicate_dim + 3))
    assert load_or_prepare(folder, other, data_of(other))[1] != place, "the start was ignored"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda c: replace(c, model=replace(c.model, width=16)), r"model\.width \(8, not 16\)"),
        (lambda c: replace(c, model=replace(c.model, copy=False)), r"model\.copy \(True, not False\)"),
        (lambda c: replace(c, text=replace(c.text, min_count=7)), r"text\.min_count"),
    ],
)
def test_another_network_or_other_words_are_refused(config: JobConfig, start: Path, change: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=rf"training\.start .*bundle was trained with another {what}; "):
        prepare(change(from_start(config, start)), RECORDS[:8], RECORDS[8:])


def test_another_start_is_another_run(config: JobConfig, start: Path, tmp_path: Path) -> None:
    place = tmp_path / "bundle"
    shutil.copytree(start, place)
    second_stage = from_start(config, place)
    before = default_name("toy", second_stage, data_of(second_stage))
    train_job(second_stage, "r", runs_dir=tmp_path)
    shutil.rmtree(place)
    retrained = train_job(without_stage(config, "joint", seed=5), "other", runs_dir=tmp_path)
    shutil.copytree(retrained.path, place)
    assert default_name("toy", second_stage, data_of(second_stage)) != before
    with pytest.raises(ConfigError, match=r"start was '.*' and is '.*'"):
        train_job(second_stage, "r", runs_dir=tmp_path)


def test_a_run_whose_start_was_moved_is_finished(config: JobConfig, start: Path, tmp_path: Path) -> None:
    assert train_job(from_start(config, start), "r", runs_dir=tmp_path).trained
    shutil.copytree(start, tmp_path / "moved")
    assert not train_job(from_start(config, tmp_path / "moved"), "r", runs_dir=tmp_path).trained
