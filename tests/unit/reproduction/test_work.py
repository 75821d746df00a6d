"""A table made from nothing: trained, evaluated once, recorded; and all that must not happen twice or by mistake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.corpora.prepared import write_records
from agggen.errors import ConfigError, CorpusError
from agggen.generation.generator import InferenceConfig
from agggen_platform import evaluation
from agggen_platform.config import flatten
from agggen_platform.reproduction import show, work
from agggen_platform.reproduction.comparison import compare
from agggen_platform.reproduction.records import read_record, records_of
from agggen_platform.reproduction.tables import SYSTEMS, VERIFIED, Table
from agggen_platform.tracking import tracker
from agggen_platform.tracking.sender import Sender
from agggen_platform.training import data
from agggen_platform.training.news import News
from tests.unit.reproduction.made import INPUTS, toy_table
from tests.unit.training.toy import RECORDS


class IdleSender(Sender):
    """Sends nothing to MLflow, which takes seconds to start."""

    def start(self) -> None: ...

    def close(self, patience: float) -> int:
        return 0


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracker, "Sender", IdleSender)
        patch.setattr("agggen_platform.training.job._Run.draw", lambda *_: None)
        yield


class Log(list[str]):
    """What happened, in order; and a `Watch` that writes it down."""

    def watch(self) -> work.Watch:
        @contextmanager
        def training() -> Iterator[Any]:
            def show(news: News) -> None:
                if news.kind == "end":
                    self.append(f"trained {news.stage}")

            yield show

        return work.Watch(self.append, training, lambda total: lambda done: None)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return toy_table(tmp_path_factory.mktemp("tables"))


def reproduce(table: Table, runs: Path, *overrides: str, seeds: Sequence[int] = (1,), fresh: bool = False) -> Log:
    log = Log()
    work.reproduce(table, runs, seeds, overrides, fresh, log.watch())
    return log


@pytest.fixture(scope="module")
def whole(table: Table, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Log]:
    """Two seeds from nothing; the log has which splits were read, too."""
    runs, log = tmp_path_factory.mktemp("runs"), Log()
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((data, "read_split"), (evaluation, "records_of")):
            real = getattr(module, name)
            patch.setattr(module, name, lambda *a, real=real: (log.append(f"read {a[1]}"), real(*a))[1])
        work.reproduce(table, runs, (1, 2), (), False, log.watch())
    return runs, log


@pytest.fixture
def runs(whole: tuple[Path, Log], tmp_path: Path) -> Path:
    """A copy of the two seeds' folder."""
    shutil.copytree(whole[0], tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was done already")

    monkeypatch.setattr(work, "train_job", refuse)
    monkeypatch.setattr(evaluation, "evaluate", refuse)


# --- what is made ------------------------------------------------------------------------------------------------


def test_each_seed_is_two_trainings_and_a_record_of_each_system(whole: tuple[Path, Log], table: Table) -> None:
    runs, log = whole
    assert {path.parent.name for path in runs.glob("*/bundle")} == {
        f"toy-{model}-{seed}" for model in ("transformer", "agggen") for seed in (1, 2)
    }
    assert [line for line in log if line.startswith("trained")] == ["trained baseline", "trained joint"] * 2
    found = records_of(table, runs)
    assert [(one.system, one.seed) for one in found] == [(system.key, seed) for system in SYSTEMS for seed in (1, 2)]
    agggen, plain = load_bundle(runs / "toy-agggen-1" / "bundle"), load_bundle(runs / "toy-transformer-1" / "bundle")
    assert agggen.sources["start"] == fingerprint(runs / "toy-transformer-1" / "bundle")
    assert plain.config["training"]["seed"] == agggen.config["training"]["seed"] == 1


def test_the_test_split_is_read_only_when_both_models_are_final(whole: tuple[Path, Log]) -> None:
    first = whole[1][: whole[1].index("Run toy-transformer-2")]
    assert first.index("trained joint") < first.index("read test")
    assert "read test" not in whole[1][: whole[1].index("trained joint")]
    assert first.count("read test") == len(SYSTEMS), "each system wrote about it once"


def test_a_record_says_what_gave_its_numbers(whole: tuple[Path, Log], table: Table) -> None:
    runs, _ = whole
    record = read_record(runs / "records" / "toy" / "agggen-od-2.json")
    bundle = runs / "toy-agggen-2" / "bundle"
    assert record.bundle == fingerprint(bundle)
    assert record.sources == load_bundle(bundle).sources
    asked = replace(load_bundle(bundle).inference, ablation="random-order")
    assert dict(record.settings) == flatten(asked) and record.settings["ablation"] == "random-order"
    assert set(record.dev) == {"baseline.dev_loss", "baseline.updates", "joint.dev_loss", "joint.updates"}
    assert {"torch", "machine", "Python"} <= set(record.environment)
    assert (record.corpus, record.split, record.inputs, record.recipe) == (
        "toy",
        "test",
        INPUTS,
        (table.recipe.preset,),
    )
    preset = table.recipe.preset
    start = "training.start=DIR/toy-transformer-2/bundle"
    assert record.commands == (
        "agggen reproduce toy --runs DIR --seeds 2",
        f"agggen train {preset} training.joint.epochs=0 training.seed=2 --name toy-transformer-2 --runs DIR",
        f"agggen train {preset} training.baseline.epochs=0 training.seed=2 {start} --name toy-agggen-2 --runs DIR",
        f"agggen evaluate DIR/toy-agggen-2/bundle --corpus {table.corpus} --split test ablation=random-order",
    )
    (report,) = [
        found
        for path in (runs / "toy-agggen-2" / "evaluation").glob("*/report.json")
        if (found := json.loads(path.read_text()))["identity"]["inference"] == record.inference
    ]
    measures = {f"{key}/{m['name']}": m for key, part in report["scores"].items() for m in part["measures"]}
    assert set(record.scores) == set(measures) and "plain/bleu" in measures
    for name, value in record.scores.items():
        assert (value.value, value.signature) == (measures[name]["value"], measures[name].get("signature", ""))
    assert record.finished == report["run"]["finished"]


def test_the_records_make_the_table(whole: tuple[Path, Log], table: Table) -> None:
    found = compare(table, records_of(table, whole[0]))
    rows = show.rows_of(found)
    assert [row[0] for row in rows] == [
        "Elsewhere",
        "AggGen",
        *["AggGen"],
        *[s.name for s in SYSTEMS if s.key != "agggen"],
    ]
    assert [row[-1] for row in rows] == ["[1]", "[2]"] + ["ours, n=2"] * len(SYSTEMS)
    values = [record.scores["plain/chrf"].value for record in records_of(table, whole[0]) if record.system == "agggen"]
    assert found.rows[2].cells["chrf"].values == tuple(values)


# --- what is not done twice --------------------------------------------------------------------------------------


def test_a_second_call_trains_and_evaluates_nothing(runs: Path, table: Table, nothing_happens: None) -> None:
    before = {path: path.read_bytes() for path in (runs / "records").rglob("*.json")}
    log = reproduce(table, runs, seeds=(1, 2))
    assert log == [f"toy, seed {seed}: all {len(SYSTEMS)} systems are on record" for seed in (1, 2)]
    assert {path: path.read_bytes() for path in (runs / "records").rglob("*.json")} == before


def test_killed_between_report_and_record_it_goes_on_at_the_record(
    runs: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runs / "records" / "toy" / "agggen-1.json"
    before = path.read_bytes()
    path.unlink()
    shutil.rmtree(runs / "toy-agggen-1" / "evaluation")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(work, "write_record", killed)
        reproduce(table, runs)
    assert not path.exists() and list((runs / "toy-agggen-1" / "evaluation").iterdir())
    monkeypatch.setattr(evaluation, "evaluate", killed)
    reproduce(table, runs)
    again, first = json.loads(path.read_bytes()), json.loads(before)
    assert again.pop("finished") and first.pop("finished") and again == first


def test_the_report_of_agggen_evaluate_counts(runs: Path, table: Table, nothing_happens: None) -> None:
    """`agggen evaluate` puts the report where it is looked for."""
    task = evaluation.task_of("b", runs / "toy-agggen-1" / "bundle", table.corpus, "test", ["missing_penalty=0"])
    assert (runs / "toy-agggen-1" / "evaluation" / task.name / "report.json").is_file()


def test_finished_runs_are_found_wherever_their_folder_lies(
    runs: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    for spelt in (Path("runs"), runs):  # a copy, whose runs began with bundles that lay elsewhere
        (runs / "records" / "toy" / "agggen-1.json").unlink(missing_ok=True)
        log = reproduce(table, spelt)
        assert log.count("This run is finished already") == 2


# --- what is refused ---------------------------------------------------------------------------------------------


def test_another_bundle_under_a_record_is_refused_and_fresh_replaces_it(runs: Path, table: Table) -> None:
    mine, other = runs / "toy-agggen-1" / "bundle", runs / "toy-agggen-2" / "bundle"
    before = fingerprint(mine)
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    with pytest.raises(
        ConfigError, match=rf"agggen-1\.json .* bundle {before[:12]}, and .* {fingerprint(other)[:12]}\. .*--fresh"
    ):
        reproduce(table, runs)
    assert read_record(runs / "records" / "toy" / "agggen-1.json").bundle == before
    log = reproduce(table, runs, fresh=True)
    assert read_record(runs / "records" / "toy" / "agggen-1.json").bundle == fingerprint(other)
    assert not [line for line in log if line.startswith("trained")]


def test_fresh_evaluates_again(runs: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real, evaluated = evaluation.evaluate, []
    monkeypatch.setattr(evaluation, "evaluate", lambda task, *rest: (evaluated.append(task), real(task, *rest))[1])
    reproduce(table, runs, fresh=True)
    assert len(evaluated) == len(SYSTEMS)


def test_another_recipe_is_refused_but_another_machine_is_not(runs: Path, table: Table, nothing_happens: None) -> None:
    with pytest.raises(
        ConfigError, match=r"transformer-1\.json .* trained by \S*tiny\.json, and \S*tiny\.json model.dropout=0\.5"
    ):
        reproduce(table, runs, "model.dropout=0.5")
    reproduce(table, runs, "training.threads=2")


def test_another_way_of_writing_is_refused(runs: Path, table: Table, nothing_happens: None) -> None:
    fewer = (*VERIFIED, "retries=1")
    systems = tuple(replace(s, inference=fewer) if s.inference == VERIFIED else s for s in SYSTEMS)
    with pytest.raises(
        ConfigError, match=r"agggen-verified-1\.json .* written with retries=2, not 1 as AggGen verified"
    ):
        reproduce(replace(table, systems=systems), runs)


def test_a_changed_setting_names_a_key_that_exists(runs: Path, table: Table) -> None:
    assert "retries" in flatten(InferenceConfig())
    with pytest.raises(ConfigError, match=r"unknown key 'model\.widht'"):
        reproduce(table, runs, "model.widht=8")
    with pytest.raises(ConfigError, match=r"the table itself decides corpus\.limit"):
        reproduce(table, runs, "corpus.limit=3")


def test_another_test_set_is_refused_before_anything_is_written(runs: Path, table: Table, tmp_path: Path) -> None:
    corpus = tmp_path / "smaller"
    shutil.copytree(table.corpus, corpus)
    write_records(corpus / "test.parquet", RECORDS[:2], "toy", "test")
    (runs / "records" / "toy" / "agggen-1.json").unlink()
    with pytest.raises(CorpusError, match=r"test has 2 records here, and the published numbers of table toy are of 3"):
        reproduce(replace(table, corpus=str(corpus)), runs)
    assert not (runs / "records" / "toy" / "agggen-1.json").exists()


def test_a_missing_test_corpus_is_said_before_training(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_happens: None
) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match="agggen corpora fetch e2e-cleaned"):
        reproduce(replace(table, corpus="e2e-cleaned"), tmp_path / "runs")
