"""What a sweep's name follows from: all that decides its trials, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import Bundle
from agggen.config import load_config
from agggen.run import FactsConfig
from agggen.training.data import Start
from agggen_platform.sweep.config import SPACES, SweepConfig
from agggen_platform.sweep.job import _identity
from tests.unit.training.toy import config_of, write_corpus

SETTINGS = load_config(SweepConfig, "rates", (), SPACES)


def frames(path: Path, word: str) -> None:
    path.write_text(json.dumps([{"words": [word], "verbs": []}]) + "\n", encoding="utf-8")


def test_frames_made_anew_are_another_sweep(tmp_path: Path) -> None:
    """Its trials are other runs, but the sweep once went on with the study of the old ones."""
    config = replace(
        config_of(write_corpus(tmp_path / "toy")),
        facts=FactsConfig(source="precomputed", precomputed=str(tmp_path / "frames.jsonl")),
    )
    frames(tmp_path / "frames.jsonl", "Bolt")
    before = _identity(config, SETTINGS)
    assert _identity(replace(config, max_reject_share=0.5), SETTINGS) == before
    assert _identity(config, replace(SETTINGS, trials=99)) == before
    frames(tmp_path / "frames.jsonl", "Mill")
    after = _identity(config, SETTINGS)
    assert {key for key in after if after[key] != before[key]} == {"segmenter"}


def test_all_that_trials_may_be_cut_by_and_learn_from_is_named(tmp_path: Path) -> None:
    config = config_of(write_corpus(tmp_path / "toy"))
    other = str(write_corpus(tmp_path / "other"))

    def found(**space: Any) -> tuple[int, int]:
        identity = _identity(config, replace(SETTINGS, space={key.replace("__", "."): v for key, v in space.items()}))
        return len(identity["segmenter"].split(", ")), len(identity["data"])

    assert found(model__width={"choice": [8, 16]}) == (1, 2)
    assert found(facts__source={"choice": ["sentences", "clauses", "precomputed"]}) == (2, 2)  # the last lacks a file
    assert found(corpus__name={"choice": [str(tmp_path / "toy"), other]}) == (1, 4)


def test_another_start_is_another_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies at its address: trials that share a baseline are named after its fingerprint."""
    starts = {"a": Start(Bundle(*[None] * 3), "1"), "b": Start(Bundle(*[None] * 3), "2")}  # type: ignore[arg-type]
    monkeypatch.setattr("agggen.training.data._start", starts.__getitem__)
    config = config_of(write_corpus(tmp_path / "toy"))
    without = _identity(config, SETTINGS)["data"]
    begun = replace(config, training=replace(config.training, start="a"))
    assert _identity(begun, SETTINGS)["data"] == without | {"start a": "1"}
    starts["a"] = starts["b"]
    assert _identity(begun, SETTINGS)["data"] == without | {"start a": "2"}
    searched = replace(SETTINGS, space={"training.start": {"choice": ["a", "b"]}})
    assert _identity(config, searched)["data"] == without | {"start a": "2", "start b": "2"}
