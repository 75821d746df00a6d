"""What a newcomer sees: the list of commands, and how far a long job is."""

from __future__ import annotations

import pytest

from agggen_platform.cli.shards import shard_progress
from agggen_platform.sharded.driver import Progress
from tests.command import command


def test_the_commands_to_begin_with_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--help",)):
        _, out, err = command(capsys)(*arguments)
        first, _, others = (out + err).partition("Commands to begin with:")[2].partition("More commands:")
        assert [line.split()[0] for line in first.split("\n") if line] == [
            "demo",
            "studio",
            "prepare",
            "train",
            "generate",
            "evaluate",
        ]
        assert "  doctor" in others and "  models" in others and "  train " not in others


def test_a_line_about_shards_says_share_speed_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with shard_progress(lambda _: "7 records/s", lambda _: "9 texts") as show:
        for shards, now in ((20, 4.0), (30, 11.0), (31, 12.0), (40, 22.0)):  # noqa: B007
            show(Progress(shards, 1000, 10, None, seconds=10.0 * (shards - 10)))
    assert capsys.readouterr().err.splitlines() == [
        "3%  30 of 1,000 shards  9 texts  7 records/s  2:41:40 left",
        "4%  40 of 1,000 shards  9 texts  7 records/s  2:40:00 left",
    ]


def test_what_ray_prints_does_not_reach_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    with shard_progress(lambda _: "", lambda _: ""):
        print("(raylet) A worker died")
    print("records")
    assert capsys.readouterr() == ("records\n", "(raylet) A worker died\n")
