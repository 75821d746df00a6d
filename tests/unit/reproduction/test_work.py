"""Reproduction of a table: trainings, evaluations, records; resumption and refusals."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.corpora.prepared import write_records
from agggen.datasets import Dataset
from agggen.errors import ConfigError, CorpusError
from agggen.training import data
from agggen_platform import evaluation
from agggen_platform.distillation import Distillation
from agggen_platform.reproduction import work
from agggen_platform.reproduction.records import RunRecord, compare, records_of, rows_of
from agggen_platform.reproduction.tables import SYSTEMS, System, Table
from tests.unit.reproduction.examples import toy_table
from tests.unit.training.toy import RECORDS

pytestmark = pytest.mark.filterwarnings("error:Pydantic serializer warnings")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return toy_table(tmp_path_factory.mktemp("tables"))


def reproduce(table: Table, runs: Path, *overrides: str, seeds: Sequence[int] = (1,), fresh: bool = False) -> list[str]:
    log: list[str] = []
    work.reproduce(table, runs, seeds, overrides, fresh, log.append)
    return log


@pytest.fixture(scope="module")
def finished(table: Table, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """The folder of runs of two seeds, and the log, which includes the splits that were read."""
    runs, log, load = tmp_path_factory.mktemp("runs"), list[str](), data.load_dataset

    def logged(source: object, *, splits: Sequence[str] | None, **more: object) -> Dataset:
        log.extend(f"read {split}" for split in splits or ())
        return load(source, splits=splits, **more)

    with pytest.MonkeyPatch.context() as monkeypatch:
        for module in (evaluation, data):
            monkeypatch.setattr(module, "load_dataset", logged)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")  # an invalid store, so that nothing is logged
        work.reproduce(table, runs, (1, 2), (), False, log.append)
        yield runs, log


@pytest.fixture
def runs(finished: tuple[Path, list[str]], tmp_path: Path) -> Path:
    """A copy of the folder `finished`."""
    shutil.copytree(finished[0], tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing must be trained or evaluated again."""
    monkeypatch.setattr(work, "train_job", Mock(side_effect=AssertionError))
    monkeypatch.setattr(evaluation, "evaluate", Mock(side_effect=AssertionError))


def record_of(table: Table, runs: Path, name: str) -> RunRecord:
    return {record.name: record for record in records_of(table, runs)}[name]


def path_of(runs: Path, name: str) -> Path:
    return runs / "records" / "toy" / f"{name}.json"


def test_each_seed_has_two_trainings_and_a_record_per_system(finished: tuple[Path, list[str]], table: Table) -> None:
    runs, log = finished
    assert [line.split()[0] for line in log if line.startswith(("Run ", "Trained in"))] == ["Run", "Trained"] * 4
    records = records_of(table, runs)
    assert [record.name for record in records] == [f"{system.key}-{seed}" for system in SYSTEMS for seed in (1, 2)]
    agggen = load_bundle(runs / "toy-agggen-1" / "bundle")
    assert agggen.sources["start"] == fingerprint(runs / "toy-transformer-1" / "bundle")
    assert [row[-1] for row in rows_of(compare(table, records))[3:]] == ["ours, n=2"] * len(SYSTEMS)
    # once per system, after both trainings
    first = log[: log.index("Run toy-transformer-2")]
    joint = next(number for number, line in enumerate(first) if line.startswith("joint model: update"))
    assert "read test" not in first[:joint]
    assert first.count("read test") == len(SYSTEMS)


def test_a_system_can_have_sentences_for_unknown_predicates(runs: Path, table: Table, tmp_path: Path) -> None:
    sentences = tmp_path / "sentences.tsv"
    sentences.write_text("owner\t{object} owns {subject}.", encoding="utf-8")
    system = System("agggen-phrases", "AggGen, more sentences", "agggen", phrases=str(sentences))
    with_phrases = replace(table, systems=(*table.systems, system))
    reproduce(with_phrases, runs)
    record = record_of(with_phrases, runs, "agggen-phrases-1")
    bundle = runs / "toy-agggen-1" / "bundle-sentences.tsv"
    assert record.bundle == fingerprint(bundle)
    assert load_bundle(bundle).lexicon.template("owner") == "{object} owns {subject}."
    assert load_bundle(bundle).sources["adjusted bundle"] == record_of(with_phrases, runs, "agggen-1").bundle
    assert reproduce(with_phrases, runs) == ["toy, seed 1: all 6 records exist"]


def test_a_student_learns_from_texts_of_all_teachers(runs: Path, table: Table) -> None:
    written = Dataset("written", {"train": RECORDS[:4], "dev": RECORDS[4:]})
    student = System("agggen-student", "AggGen, distilled", "student")
    with_student = replace(table, systems=(*table.systems, student))
    with patch.object(Distillation, "write", autospec=True, return_value=written) as write:
        assert "Run toy-agggen-3" in reproduce(with_student, runs, seeds=(2,))
    write.assert_called_once()
    addresses = sorted(teacher.address for teacher in write.call_args.args[0].teachers)
    assert addresses == [str(runs / f"toy-agggen-{seed}" / "bundle") for seed in (1, 2, 3)]
    bundle = load_bundle(runs / "toy-student-2" / "bundle")
    assert bundle.sources["start"] == fingerprint(runs / "toy-agggen-2" / "bundle")
    assert bundle.config["training"]["seed"] == 2 and bundle.config["corpus"]["name"] == "written"
    record = record_of(with_student, runs, "agggen-student-2")
    assert record.bundle == fingerprint(runs / "toy-student-2" / "bundle")
    assert reproduce(with_student, runs, seeds=(2,)) == ["toy, seed 2: all 6 records exist"]


def test_a_new_default_of_inference_needs_no_training(
    runs: Path, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished runs are reused, and evaluated with the new default."""
    preset = json.loads(Path(table.recipe.preset).read_text())
    preset["inference"]["plan_weight"] = 0.125
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(preset))
    monkeypatch.setattr(work.Recipe, "result_settings", lambda recipe, overrides: ("tiny",))
    table = replace(table, recipe=replace(table.recipe, preset=str(changed)))
    log = reproduce(table, runs, fresh=True)
    assert log.count("This run is finished") == 2
    settings = record_of(table, runs, "agggen-1").inference(table)
    assert settings["plan_weight"] == 0.125 != load_bundle(runs / "toy-agggen-1" / "bundle").inference.plan_weight


def test_after_a_kill_between_report_and_record_it_resumes_at_the_record(runs: Path, table: Table) -> None:
    path = path_of(runs, "agggen-1")
    before = path.read_bytes()
    path.unlink()
    shutil.rmtree(runs / "toy-agggen-1" / "evaluation")

    killed = Mock(side_effect=KeyboardInterrupt)
    with patch.object(work, "write_record", killed), pytest.raises(KeyboardInterrupt):
        reproduce(table, runs)
    assert not path.exists()
    with patch.object(evaluation, "evaluate", killed):
        reproduce(table, runs)
    assert path.read_bytes() == before


def test_a_record_of_another_bundle_is_refused_and_replaced_by_fresh(runs: Path, table: Table) -> None:
    bundle, other = runs / "toy-agggen-1" / "bundle", runs / "toy-agggen-2" / "bundle"
    shutil.rmtree(bundle)
    shutil.copytree(other, bundle)
    with pytest.raises(ConfigError, match=rf"agggen-1\.json .* bundle is .* '{fingerprint(other)}' now\. .*--fresh"):
        reproduce(table, runs)
    log = reproduce(table, runs, fresh=True)
    assert record_of(table, runs, "agggen-1").bundle == fingerprint(other)
    assert not [line for line in log if line.startswith("Trained")]


def test_a_second_call_does_nothing_and_refuses_another_recipe(runs: Path, table: Table, no_work: None) -> None:
    with pytest.raises(ConfigError, match=r"transformer-1\.json .* recipe is .* 'model\.dropout=0\.5'\) now"):
        reproduce(table, runs, "model.dropout=0.5")
    log = reproduce(table, runs, "training.threads=2", seeds=(1, 2))  # a different machine is allowed
    assert log == [f"toy, seed {seed}: all {len(SYSTEMS)} records exist" for seed in (1, 2)]


def test_other_inference_settings_are_refused(runs: Path, table: Table, no_work: None) -> None:
    systems = tuple(replace(s, inference=("verify=strict",)) if s.key == "agggen-free" else s for s in SYSTEMS)
    with pytest.raises(ConfigError, match=r"agggen-free-1\.json .* verify is 'off' in the record and 'strict' now"):
        reproduce(replace(table, systems=systems), runs)
    path = path_of(runs, "agggen-1")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"settings": content["settings"] | {"an_old_setting": 1}}))
    with pytest.raises(ConfigError, match=r"agggen-1\.json .* an_old_setting is 1 in the record and None now"):
        reproduce(table, runs)


def test_another_test_set_is_refused_before_anything_is_written(runs: Path, table: Table, tmp_path: Path) -> None:
    corpus = tmp_path / "smaller"
    shutil.copytree(table.corpus, corpus)
    write_records(corpus / "test.parquet", RECORDS[:2], "toy", "test")
    path_of(runs, "agggen-1").unlink()
    with pytest.raises(CorpusError, match=r"has 2 records, but the published scores of table toy are for 3"):
        reproduce(replace(table, corpus=str(corpus)), runs)
    assert not path_of(runs, "agggen-1").exists()


def test_wrong_settings_and_missing_corpora_are_reported_before_training(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_work: None
) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'model\.widht'"):
        reproduce(table, tmp_path, "model.widht=8")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    with pytest.raises(CorpusError, match="agggen corpora fetch e2e-cleaned"):
        reproduce(replace(table, corpus="e2e-cleaned"), tmp_path)
