"""`agggen sweep`: invalid sweeps, identity, number of concurrent trials, registration."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.config import load_config
from agggen_platform.job_config import ClusterConfig, JobConfig
from agggen_platform.ray_cluster import ClusterError
from agggen_platform.registry import Registry, resolve
from agggen_platform.sweep.config import MEASURES, SPACES, SweepConfig, parse_space
from agggen_platform.sweep.job import _identity
from agggen_platform.sweep.study import Epochs, Study, open_study
from agggen_platform.sweep.trials import trials_at_once
from agggen_platform.training.job import train_job
from tests.command import Run, command
from tests.processes import free_ports
from tests.unit.registry.examples import empty_registry, save_model
from tests.unit.training.toy import config_of, write_corpus

SWEEP = ("sweep", "elements", "tracking.patience_seconds=5", "--name", "s", "--trials", "1", "--runs", "there")


@pytest.fixture
def run(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs the command where a sweep in the folder `there` has finished its only trial."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    settings = load_config(SweepConfig, "predicate-sizes", ["trials=1"], SPACES)
    identity = _identity(load_config(JobConfig, "elements"), settings)
    space = parse_space(settings.space)
    study = Study(open_study(tmp_path / "there" / "s", "s", identity), settings, space, Epochs(1, 1))
    study.next()
    study.report_evaluation(0, "joint", 1, 2.0)
    study.complete(0, str(save_model(tmp_path / "there" / "s-t000" / "bundle", 1)), "s-t000", 1.0)
    shutil.copy(empty_registry(tmp_path_factory.getbasetemp()), tmp_path / "there" / "mlflow.db")
    return command(capsys)


def test_the_note_names_a_registry_that_is_not_the_default(run: Run, tmp_path: Path) -> None:
    uri, bundle = f"sqlite:///{tmp_path / 'there' / 'mlflow.db'}", tmp_path / "there" / "s-t000" / "bundle"
    code, out, err = run(*SWEEP)
    assert (code, out.splitlines()[-1]) == (0, str(bundle))
    hint = f"see: agggen models show agggen/1 --registry {uri}"
    assert f"Trial 0 is registered as agggen/1, alias candidate; {hint}" in err
    assert resolve("models:/agggen@candidate", uri=uri) == str(bundle)

    Registry(uri).set_alias("agggen", "candidate", Registry(uri).add_version("agggen", "elsewhere", {}).number)
    code, _, err = run(*SWEEP)
    assert code == 0
    assert f"Trial 0 is already agggen/1; {hint}" in err
    assert Registry(uri).aliases("agggen") == {"candidate": "2"}


def test_a_failed_registration_still_prints_the_table_and_the_bundle(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "there" / "s-t000" / "bundle"
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"postgresql://ann:secret@127.0.0.1:{free_ports(1)[0]}/mlflow")
    code, out, err = run(*SWEEP)
    assert code == 8
    assert out.splitlines()[1].startswith("0\tfinished\t2")
    assert out.splitlines()[-1] == str(bundle)
    assert f"Trial 0 is not registered; to retry: agggen models register {bundle} --name agggen (--to" in err
    assert "cannot be reached" in err
    assert "secret" not in err
    events = (tmp_path / "there" / "s" / "tracking.jsonl").read_text().splitlines()
    assert '"FINISHED"' in events[-1]


def test_training_reports_exactly_the_measures_of_a_sweep(tmp_path: Path) -> None:
    reported: list[tuple[str, ...]] = []
    train_job(
        config_of(write_corpus(tmp_path / "toy"), epochs=1),
        "one",
        runs_dir=tmp_path,
        on_evaluation=lambda event: reported.append(tuple(sorted(event.metrics))) is not None,
    )
    assert set(reported) == {MEASURES}


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
    fingerprints = {"a": "1", "b": "2"}
    monkeypatch.setattr("agggen.training.data.bundle_folder", str)
    monkeypatch.setattr("agggen.training.data.load_bundle", lambda _: None)
    monkeypatch.setattr("agggen.training.data.fingerprint", fingerprints.__getitem__)
    config = config_of(write_corpus(tmp_path / "toy"))
    without = _identity(config, SETTINGS)["data"]
    started = replace(config, training=replace(config.training, start="a"))
    assert _identity(started, SETTINGS)["data"] == without | {"start a": "1"}
    fingerprints["a"] = "2"
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
def test_an_invalid_sweep_is_refused_before_it_begins(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = command(capsys)("sweep", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not list(tmp_path.glob("runs/*/tracking.jsonl")), "no run was started"


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


def test_a_store_may_be_the_folder_of_runs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for url in ("there", tmp_path / "link"):
        code, _, err = run(*SWEEP, f"storage.url={url}")
        assert code == 0, err
