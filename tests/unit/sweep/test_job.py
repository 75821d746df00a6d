"""`agggen sweep`: spaces, invalid sweeps, identity, number of concurrent trials, registration."""

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from agggen.bundle import Bundle
from agggen.config import load_config, preset_names
from agggen.errors import ConfigError
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.ray_cluster import ClusterError
from agggen_platform.registry import Registry, resolve
from agggen_platform.sweep.config import MEASURES, SPACES, SweepConfig, check_space, parse_space, trial_config
from agggen_platform.sweep.job import _identity
from agggen_platform.sweep.study import Epochs, Study, open_study
from agggen_platform.sweep.trials import trials_at_once
from agggen_platform.training.job import train_job
from tests.command import Run, check_refused
from tests.processes import free_ports
from tests.unit.registry.examples import empty_registry, save_model
from tests.unit.training.toy import config_of, write_corpus

SWEEP = ("sweep", "elements", "tracking.patience_seconds=5", "--name", "s", "--trials", "1", "--runs", "there")


@pytest.fixture
def swept(run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command where a sweep in the folder `there` has finished its only trial."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    settings = load_config(SweepConfig, "predicate-sizes", ["trials=1"], SPACES)
    identity = _identity(load_config(JobConfig, "elements"), settings)
    space = parse_space(settings.space)
    study = Study(open_study(tmp_path / "there" / "s", "s", identity), settings, space, Epochs(1, 1))
    study.next()
    study.report_evaluation(0, "joint", 1, 2.0)
    study.complete(0, str(save_model(tmp_path / "there" / "s-t000" / "bundle", 1)), "s-t000", 1.0)
    shutil.copy(empty_registry(tmp_path_factory.getbasetemp()), tmp_path / "there" / "mlflow.db")
    return partial(run, *SWEEP)


def test_the_note_names_a_registry_that_is_not_the_default(swept: Run, tmp_path: Path) -> None:
    uri, bundle = f"sqlite:///{tmp_path / 'there' / 'mlflow.db'}", tmp_path / "there" / "s-t000" / "bundle"
    code, out, err = swept()
    assert (code, out.splitlines()[-1]) == (0, str(bundle))
    hint = f"see: agggen models show agggen/1 --registry {uri}"
    assert f"Trial 0 is registered as agggen/1, alias candidate; {hint}" in err
    assert resolve("models:/agggen@candidate", uri=uri) == str(bundle)

    Registry(uri).set_alias("agggen", "candidate", Registry(uri).add_version("agggen", "elsewhere", {}).number)
    code, _, err = swept()
    assert code == 0
    assert f"Trial 0 is already agggen/1; {hint}" in err
    assert Registry(uri).aliases("agggen") == {"candidate": "2"}


def test_a_failed_registration_still_prints_the_table_and_the_bundle(
    swept: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "there" / "s-t000" / "bundle"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"postgresql://ann:secret@127.0.0.1:{free_ports(1)[0]}/mlflow")
    code, out, err = swept()
    assert code == 8
    assert out.splitlines()[1].startswith("0\tfinished\t2")
    assert out.splitlines()[-1] == str(bundle)
    assert f"Trial 0 is not registered; to retry: agggen models register {bundle} --name agggen (--to" in err
    assert "cannot be reached" in err
    assert "secret" not in err
    events = (tmp_path / "there" / "s" / "tracking.jsonl").read_text().splitlines()
    assert '"FINISHED"' in events[-1]


def test_training_reports_exactly_the_measures_of_a_sweep(tmp_path: Path) -> None:
    evaluated = Mock(return_value=False)
    train_job(config_of(write_corpus(tmp_path / "toy"), epochs=1), "one", runs_dir=tmp_path, on_evaluation=evaluated)
    assert {tuple(sorted(call.args[0].metrics)) for call in evaluated.call_args_list} == {MEASURES}


SETTINGS = load_config(SweepConfig, "rates", (), SPACES)


def test_the_identity_names_every_segmenter_and_corpus_of_the_space(tmp_path: Path) -> None:
    config = config_of(write_corpus(tmp_path / "toy"))
    other = str(write_corpus(tmp_path / "other"))

    def counts_of(**space: Any) -> tuple[int, int]:
        identity = _identity(config, replace(SETTINGS, space={key.replace("__", "."): v for key, v in space.items()}))
        return len(identity["segmenter"].split(", ")), len(identity["data"])

    assert counts_of(model__width={"choice": [8, 16]}) == (1, 2)
    assert counts_of(facts__source={"choice": ["sentences", "clauses", "allennlp"]}) == (2, 2)  # allennlp: no archive
    assert counts_of(corpus__name={"choice": [str(tmp_path / "toy"), other]}) == (1, 4)


def test_a_sweep_from_another_start_has_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity has the fingerprint of the start under its address, by which trials share a baseline."""
    starts = {"a": "1", "b": "2"}  # fingerprints
    monkeypatch.setattr("agggen.training.data.bundle_folder", str)
    monkeypatch.setattr("agggen.training.data.load_bundle", lambda path: Bundle(*[None] * 3))  # type: ignore[arg-type]
    monkeypatch.setattr("agggen.training.data.fingerprint", starts.__getitem__)
    config = config_of(write_corpus(tmp_path / "toy"))
    without = _identity(config, SETTINGS)["data"]
    started = replace(config, training=replace(config.training, start="a"))
    assert _identity(started, SETTINGS)["data"] == without | {"start a": "1"}
    starts["a"] = starts["b"]
    assert _identity(started, SETTINGS)["data"] == without | {"start a": "2"}
    searched = replace(SETTINGS, space={"training.start": {"choice": ["a", "b"]}})
    assert _identity(config, searched)["data"] == without | {"start a": "2", "start b": "2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["elements", "--space", "predicate-size"], "no preset is called 'predicate-size'; did you mean"),
        (["element"], "did you mean elements?"),
        (["elements", "model.predicate_dim=8"], "'model.predicate_dim' is set by an override and searched"),
        (["elements", "training.joint.epochs=0"], "no trial can report joint/dev_loss"),
        (["elements", "tracking.uri=http://127.0.0.1:9"], "set storage.url to s3://bucket/prefix, or do not register"),
        (["elements", "--runs", "s3://b/runs"], "s3://b/runs is not a folder of this machine"),
        (["elements", "--trials", "0"], "trials must be at least 1, not 0"),
        (["elements", "--name", "a/b"], "the run name 'a/b' must be"),
        (["elements", "corpus.name=elemental"], "elemental"),
        (["elements", "cluster.address=ray://head:10001"], "cannot run through Ray Client (ray://head:10001)"),
    ],
)
def test_an_invalid_sweep_is_refused_before_it_begins(run: Run, arguments: list[str], message: str) -> None:
    check_refused(run("sweep", *arguments), 2, message)
    assert not list(Path().glob("runs/*/tracking.jsonl")), "no run was started"


def cpus(*nodes: float) -> list[dict[str, float]]:
    return [{"CPU": count, "memory": 1e9} for count in nodes]


@pytest.mark.parametrize(
    ("config", "nodes", "limit", "expected"),
    [
        (ClusterConfig(), cpus(8), 0, 8),  # local trials: one CPU each
        (ClusterConfig(), cpus(8), 3, 3),
        (ClusterConfig(), cpus(2), 5, 2),
        (ClusterConfig(workers=2), cpus(8), 0, 4),
        (ClusterConfig(workers=3), cpus(8), 0, 2),
        (ClusterConfig(workers=2, cpus_per_worker=2), cpus(3, 3), 0, 1),  # a worker does not span nodes
        (ClusterConfig(workers=2, cpus_per_worker=0.1), cpus(0.6), 0, 3),  # rounded down, not to 2
        (ClusterConfig(workers=2, gpus_per_worker=1), [{"CPU": 64, "GPU": 4}], 0, 2),
        (ClusterConfig(cpus_per_worker=0, gpus_per_worker=0.5), [{"CPU": 1, "GPU": 1}], 0, 2),
        (ClusterConfig(workers=4, autoscaling=True), cpus(2), 6, 6),
        (ClusterConfig(workers=4, autoscaling=True), cpus(2), 0, 1),
    ],
)
def test_the_number_of_concurrent_trials_follows_the_room_of_the_nodes(
    config: ClusterConfig, nodes: list[dict[str, float]], limit: int, expected: int
) -> None:
    assert trials_at_once(config, nodes, limit) == expected


def test_a_cluster_without_room_for_one_trial_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"needs 3 workers of 1 CPUs, .* the nodes have 2 CPUs, 0 GPUs; lower"):
        trials_at_once(ClusterConfig(workers=3), cpus(2))
    with pytest.raises(ClusterError, match=r"of 1 CPUs and 1 GPUs"):
        trials_at_once(ClusterConfig(gpus_per_worker=1), cpus(8))


def test_a_store_may_be_the_folder_of_runs(swept: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for url in ("there", tmp_path / "link"):
        code, _, err = swept(f"storage.url={url}")
        assert code == 0, err


# --- spaces ---


@pytest.mark.parametrize("name", preset_names(SPACES))
@pytest.mark.parametrize("preset", ["elements", "e2e", "webnlg"])
def test_every_named_space_fits_every_preset(name: str, preset: str) -> None:
    settings = load_config(SweepConfig, name, presets_package=SPACES)
    check_space(parse_space(settings.space), load_config(JobConfig, preset))


def test_each_kind_of_dimension_is_parsed() -> None:
    described = {
        "model.width": {"choice": [64, 128]},
        "model.layers": {"int": [1, 4]},
        "model.dropout": {"uniform": [0, 0.5]},
        "training.joint.learning_rate": {"log_uniform": [1e-4, 1e-2]},
    }
    assert parse_space(described) == {
        "model.width": CategoricalDistribution((64, 128)),
        "model.layers": IntDistribution(1, 4),
        "model.dropout": FloatDistribution(0.0, 0.5),
        "training.joint.learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
    }


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({}, "space is empty"),
        ({"model.width": {"choose": [1]}}, "must be one of {choice: [...]}"),
        ({"model.width": {"choice": []}}, "space, 'model.width', choice []: The `choices` must contain"),
        ({"model.width": {"int": [1, 2.5]}}, "the values must be two whole numbers"),
        ({"model.dropout": {"uniform": [0.5]}}, "space, 'model.dropout', uniform [0.5]: not enough values"),
        ({"model.dropout": {"log_uniform": [0, 1]}}, "`low > 0` must hold for `log=True`"),
        ({"model.predicat_dim": {"choice": [8]}}, "did you mean 'model.predicate_dim'?"),
        ({"cluster.workers": {"choice": [1]}}, "unknown key 'cluster.workers'"),
        ({"model.width": {"choice": [64, "wide"]}}, "'model.width' must be a valid integer, not 'wide'"),
        ({"model.width": {"uniform": [64, 128.5]}}, "'model.width' must be a valid integer, not 64.0"),
        ({"model.width": {"choice": [128, 130]}}, "heads"),
        ({"model": {"choice": [1]}}, "'model' is a section"),
        ({"training.joint.epochs": {"int": [-1, 3]}}, "epochs must be at least 0, not -1"),
    ],
)
def test_an_invalid_space_is_refused(described: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_space(parse_space(described), load_config(JobConfig, "elements"))


def test_a_trials_configuration_changes_only_the_given_values() -> None:
    config = load_config(JobConfig, "elements", ["cluster.workers=2", "corpus.limit=9", 'storage.url="s3://b/runs"'])
    result = trial_config(config, {"model.predicate_dim": 8, "training.joint.learning_rate": 0.1 + 0.2})
    assert (result.model.predicate_dim, result.training.joint.learning_rate) == (8, 0.1 + 0.2)
    assert (result.cluster, result.storage, result.corpus) == (config.cluster, config.storage, config.corpus)
    assert trial_config(config, {}) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trials=0", "trials must be at least 1"),
        ("metric=dev_loss", "metric must be one of baseline/dev_loss, baseline/dev_seconds, joint/dev_loss"),
        ("metric=joint/bleu", "metric must be one of "),
        ("asha.grace=0", "grace must be at least 1"),
        ("asha.factor=1", "factor at least 2"),
        ("trails=3", "did you mean 'trials'?"),
    ],
)
def test_settings_of_a_sweep_are_checked(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(SweepConfig, "rates", [override], SPACES)
