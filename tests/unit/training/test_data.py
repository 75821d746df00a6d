"""What a job trains on: the segmenter is part of it, and what cannot be read is not passed over in silence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agggen.errors import ConfigError, CorpusError
from agggen.run import CorpusConfig, FactsConfig
from agggen_platform.job_config import JobConfig
from agggen_platform.training.data import data_of, default_name
from agggen_platform.training.job import train_job
from tests.unit.training.toy import config_of, write_corpus


def frames(path: Path, word: str) -> None:
    path.write_text(json.dumps([{"words": [word], "verbs": []}]) + "\n", encoding="utf-8")


def test_a_file_of_frames_made_anew_is_another_run(tmp_path: Path) -> None:
    facts = FactsConfig(source="precomputed", precomputed=str(tmp_path / "frames.jsonl"))
    config = replace(config_of(write_corpus(tmp_path / "toy")), facts=facts)
    frames(tmp_path / "frames.jsonl", "Bolt")
    before = data_of(config)
    name = default_name("toy", config, before)
    assert default_name("toy", config, data_of(config)) == name
    frames(tmp_path / "frames.jsonl", "Mill")
    after = data_of(config)
    assert after.fingerprints == before.fingerprints
    assert default_name("toy", config, after) != name


def test_facts_of_the_corpus_need_no_segmenter(tmp_path: Path) -> None:
    config = replace(config_of(write_corpus(tmp_path / "toy")), facts=FactsConfig(source="corpus"))
    assert data_of(config).segmenter == "corpus"


def test_another_segmenter_under_an_old_name_is_refused(tmp_path: Path) -> None:
    config = config_of(write_corpus(tmp_path / "toy"), epochs=1)
    data = data_of(config)
    train_job(config, "r", runs_dir=tmp_path / "runs", data=data)
    with pytest.raises(ConfigError, match=r"segmenter was 'sentences-.*' and is 'tagger-2'"):
        train_job(config, "r", runs_dir=tmp_path / "runs", data=replace(data, segmenter="tagger-2"))


def catalogue(home: Path, monkeypatch: pytest.MonkeyPatch, bad: int) -> JobConfig:
    """A corpus of the catalogue whose training split has `bad` rows of 20 that cannot be read."""
    (home / "e2e").mkdir()
    good = ['"name[Blue Door], food[Thai]",Blue Door is Thai.', '"name[Mill], food[Polish]",Mill serves Polish food.']
    rows = [*(good[number % 2] for number in range(20 - bad)), *['"?",Bad.'] * bad]
    (home / "e2e" / "trainset.csv").write_text("\n".join(["mr,ref", *rows]) + "\n", encoding="utf-8")
    (home / "e2e" / "devset.csv").write_text("\n".join(["mr,ref", *good]) + "\n", encoding="utf-8")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(home))
    return replace(config_of(home, epochs=1), corpus=CorpusConfig(name="e2e"))


def test_what_cannot_be_read_is_said_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agggen_platform.training.data.REJECTS", 0.5)
    config = catalogue(tmp_path, monkeypatch, bad=1)
    said: list[str] = []
    train_job(config, "r", runs_dir=tmp_path / "runs", say=said.append)
    path = tmp_path / "runs" / "r" / "rejects.jsonl"
    assert said == [f"1 records of e2e/train cannot be read: {path}"]
    (reject,) = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (Path(reject["file"]).name, reject["line"]) == ("trainset.csv", 21)


def test_too_much_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match=r"e2e/train: 3 of .* records were rejected .*at most 5\.0%.* the first"):
        data_of(catalogue(tmp_path, monkeypatch, bad=3))
