"""Data of a training job: rejected records and texts are reported."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.prepared import write_records
from agggen.errors import AggGenError, ConfigError, CorpusError, StoppedError
from agggen.facts.clauses import SentenceSegmenter
from agggen.generation.planner import MAX_TRIPLES
from agggen.records import Record, Reference, Triple
from agggen.run import CorpusConfig
from agggen.training.data import check_unchanged
from agggen.training.events import TrainingEvent
from agggen_platform.job_config import JobConfig
from agggen_platform.training.job import data_of, train_job
from tests.unit.training.toy import RECORDS, config_of, write_corpus


def catalogue(home: Path, monkeypatch: pytest.MonkeyPatch, invalid_rows: int) -> JobConfig:
    """A job on a catalogue corpus in whose training split `invalid_rows` of 20 rows are invalid."""
    (home / "e2e").mkdir()
    good = ['"name[Blue Door], food[Thai]",Blue Door is Thai.', '"name[Mill], food[Polish]",Mill serves Polish food.']
    rows = [*(good[number % 2] for number in range(20 - invalid_rows)), *['"?",Bad.'] * invalid_rows]
    (home / "e2e" / "trainset.csv").write_text("\n".join(["mr,ref", *rows]) + "\n", encoding="utf-8")
    (home / "e2e" / "devset.csv").write_text("\n".join(["mr,ref", *good]) + "\n", encoding="utf-8")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(home))
    return replace(config_of(home, epochs=1), corpus=CorpusConfig(name="e2e"))


def test_invalid_rows_are_reported_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(catalogue(tmp_path, monkeypatch, invalid_rows=1), max_reject_share=0.5)
    messages: list[str] = []
    train_job(config, "r", runs_dir=tmp_path / "runs", report=messages.append)
    path = tmp_path / "runs" / "r" / "rejects.jsonl"
    assert messages == [f"1 invalid records of e2e/train are left out; see {path}"]
    (reject,) = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (Path(reject["file"]).name, reject["line"]) == ("trainset.csv", 21)


class Short(SentenceSegmenter):
    """A segmenter that fails on some texts, as BERT does on long ones."""

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if any("Café Zoë" in text or "Strada" in text for text in texts):
            raise AggGenError("a text is too long for the model")
        return super().segment(texts)


def test_a_text_that_cannot_be_segmented_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agggen.run.segmenter", lambda _: Short())
    config = replace(config_of(write_corpus(tmp_path / "toy")), max_reject_share=0.5)
    messages: list[str] = []
    stopped: list[str] = []

    def stop(event: TrainingEvent) -> bool:
        stopped.append(event.stage)
        return len(stopped) == 1

    with pytest.raises(StoppedError):
        train_job(config, "r", runs_dir=tmp_path / "runs", report=messages.append, on_evaluation=stop)
    path, toy = tmp_path / "runs" / "r" / "rejects.jsonl", str(tmp_path / "toy")
    assert messages == [f"1 texts of {toy}/{split} are left out; see {path}" for split in ("train", "dev")]
    rejects = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    reason = "reference 1: AggGenError: a text is too long for the model"
    assert rejects == [
        {"file": f"{toy}/train", "line": None, "id": "Café Zoë", "reason": reason},
        {"file": f"{toy}/dev", "line": None, "id": "Strada", "reason": reason},
    ]
    messages.clear()
    assert train_job(config, "r", runs_dir=tmp_path / "runs", report=messages.append, on_evaluation=stop).trained
    assert len(messages) == 2, "a resumed run must report the same texts"


def test_records_with_too_many_triples_are_not_sampled(tmp_path: Path) -> None:
    vast = Record("vast", tuple(Triple("Vast", f"p{n}", "1") for n in range(MAX_TRIPLES + 1)), (Reference("Vast."),))
    corpus = write_corpus(tmp_path / "toy")
    write_records(corpus / "large.parquet", [vast, *RECORDS[:3]], "toy", "large")
    config = config_of(corpus)
    config = replace(config, corpus=replace(config.corpus, dev="large"), max_reject_share=0.5)
    assert data_of(config).samples(9) == RECORDS[:3]


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({"inference.verify": "strict"}, {}, ""),  # a run of a version without this setting
        ({"training.joint.accumulate": 1}, {}, ""),  # a run of a version with this setting
        ({}, {"inference.verify": "off"}, r"inference\.verify was 'strict' and is 'off'"),
        ({"training.start": "a"}, {"training.start": "b"}, ""),  # compared by the content
        ({"start": "12"}, {"start": "34"}, "start was '12' and is '34'"),
        ({"training.joint.epochs": 0}, {"training.joint.epochs": 0, "training.joint.warmup": 1}, ""),
        ({"training.joint.epochs": 0}, {"training.joint.epochs": 9}, r"training\.joint\.epochs was 0 and is 9"),
        (dict.fromkeys("abcdefg", 1), {}, "e was 1 and is None and 2 more. Give another --name to start over"),
    ],
)
def test_runs_differ_in_settings_that_affect_the_result(
    before: dict[str, Any], now: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"the run r .*{message}") if message else nullcontext():
        check_unchanged(before, now, "the run r", "another --name")


def test_too_many_invalid_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match=r"e2e/train: 3 of .* records were rejected .*at most 5\.0%.* the first"):
        data_of(catalogue(tmp_path, monkeypatch, invalid_rows=3))
