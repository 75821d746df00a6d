"""Runs on this machine: where records come from, where a run lives, and when it trains."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen.errors import BundleError, ConfigError, CorpusError
from agggen.model.joint import ModelConfig
from agggen.records import Record
from agggen.run import CorpusConfig, RunConfig, TextConfig, TrainingConfig
from agggen.training.callbacks import Silent
from agggen.training.loop import StageConfig, Trainer
from agggen_platform.local import fingerprint_of, finished, records_of, run_folder, train_here
from agggen_platform.tracking import Tracker


def record(name: str, food: str = "Thai") -> Record:
    text = f"{name} serves {food} food in the city."
    triples = [[name, "food", food], [name, "area", "city"]]
    return Record.of({"id": name, "triples": triples, "references": [text]})


RECORDS = [record(name) for name in ("Aromi", "Café Zoë", "Mill", "Blue Door")]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "toy").mkdir()
    write_records(tmp_path / "toy" / "train.parquet", RECORDS[:3], "toy", "train")
    write_records(tmp_path / "toy" / "dev.parquet", RECORDS[3:], "toy", "dev")
    return tmp_path / "toy"


def test_records_of_a_prepared_folder(corpus: Path) -> None:
    assert records_of(str(corpus), "train") == RECORDS[:3]


def test_records_of_the_catalogue_leave_rejects_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e2e").mkdir()
    rows = ["mr,ref", '"name[Blue Door], food[Thai]",Blue Door is Thai.', '"?",Bad.']
    (tmp_path / "e2e" / "devset.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    assert [len(found.triples) for found in records_of("e2e", "dev")] == [1]


def test_a_folder_named_like_a_corpus_does_not_hide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who prepares into `./e2e` and forgets a split hears of the catalogue's files, as without the folder."""
    (tmp_path / "e2e").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path / "home"))
    with pytest.raises(CorpusError, match="agggen corpora fetch e2e"):
        records_of("e2e", "dev")


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("toy", "test", "the folder toy has no split 'test'; it has dev, train"),
        (".", "dev", "the folder . holds no prepared corpus"),
        ("toi", "dev", "no corpus 'toi'"),
    ],
)
def test_records_that_are_not_there(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, name: str, split: str, message: str
) -> None:
    monkeypatch.chdir(corpus.parent)
    with pytest.raises(CorpusError) as refused:
        records_of(name, split)
    assert message in str(refused.value)


def test_a_damaged_split_is_refused(corpus: Path) -> None:
    path = corpus / "dev.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=r"dev\.parquet"):
        records_of(str(corpus), "dev")


def test_the_fingerprint_follows_content_and_order() -> None:
    assert fingerprint_of(RECORDS) == fingerprint_of([record(each.id) for each in RECORDS])
    changed = [record("Aromi", "English"), *RECORDS[1:]]
    prints = {fingerprint_of(each) for each in (RECORDS, RECORDS[::-1], RECORDS[:3], changed, [])}
    assert len(prints) == 5


def test_a_run_lives_where_its_name_and_configuration_say() -> None:
    config, root = RunConfig(), Path("runs")
    assert run_folder(config, "a", root) == run_folder(RunConfig(), "a", root)
    assert run_folder(config, "a", root).parent == root
    other = replace(config, training=TrainingConfig(seed=2))
    assert len({run_folder(config, "a", root), run_folder(config, "b", root), run_folder(other, "a", root)}) == 3


@pytest.mark.parametrize("name", ["a/b", "/a", "a/", "../a"])
def test_a_run_does_not_leave_the_folder_of_runs(name: str) -> None:
    """Regression: `--name a/b` trained in runs/a/ and logged elsewhere."""
    with pytest.raises(ConfigError, match="must be a name without folders"):
        run_folder(RunConfig(), name, Path("runs"))


class Heard(Silent):
    def __init__(self) -> None:
        self.ended = 0

    def on_end(self, trainer: Trainer) -> None:
        self.ended += 1


def test_train_here_trains_once_and_logs_where_it_came_from(corpus: Path, tmp_path: Path) -> None:
    stage = StageConfig(epochs=1, warmup=1, log_every=1)
    config = RunConfig(
        corpus=CorpusConfig(name=str(corpus)),
        text=TextConfig(min_count=1),
        model=ModelConfig(width=16, heads=2, layers=1, feed_forward=16, predicate_dim=8),
        training=TrainingConfig(threads=1, baseline=stage, joint=stage),
    )
    folder, heard, said = tmp_path / "runs" / "r", Heard(), list[str]()
    assert finished(folder) is None
    # A store that cannot be: the run must go on, and its JSONL holds everything.
    with Tracker("nonsense://x", run_name="r", runs_dir=tmp_path / "runs", report=said.append) as tracker:
        first = train_here(config, folder, tracker, lambda stage: [heard])
        again = train_here(config, folder, tracker, lambda stage: [heard])
    assert (first.trained, again.trained, heard.ended) == (True, False, 2)
    assert first.path == again.path == folder / "bundle"
    events = [json.loads(line) for line in (folder / "tracking.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [event["event"] for event in events].count("params") == 1
    params = next(event["values"] for event in events if event["event"] == "params")
    assert params["model.width"] == 16
    assert params[f"{corpus}/train"] == fingerprint_of(RECORDS[:3]) == first.bundle.sources[f"{corpus}/train"]
    logged = {name for event in events if event["event"] == "metrics" for name in event["values"]}
    assert {"baseline/train_loss", "baseline/dev_loss", "joint/dev_loss", "train_seconds"} <= logged

    (folder / "bundle" / "predicates.json").write_text("[]")
    with pytest.raises(BundleError, match=r"predicates\.json"):
        finished(folder)
