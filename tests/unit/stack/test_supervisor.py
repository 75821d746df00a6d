"""Parts that start, die, hang or refuse to end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from infra.stack import processes
from infra.stack.errors import RefusedError, StackError
from infra.stack.part import Part, is_free
from infra.stack.processes import Launch
from infra.stack.stack import Supervisor
from infra.stack.state import State
from tests.unit.stack.parts import FAILS, SILENT, STUBBORN, Toy


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "stack")


@contextmanager
def supervised(state: State, *parts: Part) -> Iterator[tuple[Supervisor, list[str]]]:
    """A supervisor and what it reports; afterwards nothing of its parts is left."""
    reported: list[str] = []
    before = set(psutil.Process().children())
    with state.locked():
        supervisor = Supervisor(state, parts, reported.append)
        try:
            yield supervisor, reported
        finally:
            family = [process for child in children(before) for process in (child, *child.children(recursive=True))]
            supervisor.down()
    assert not psutil.wait_procs(family, timeout=30)[1]


def children(before: set[psutil.Process]) -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child not in before]


def test_parts_start_in_order_and_end_in_reverse(state: State) -> None:
    one, two = Toy(name="one"), Toy(name="two")
    with supervised(state, one, two) as (supervisor, reported):
        supervisor.up()
        starts = [line.split(" (")[0] for line in reported]
        assert starts == [f"{part.title} answers at {part.address}" for part in (one, two)]
        assert (one.settled, two.settled) == (1, 1)
        supervisor.watch(lambda: True)
        reported.clear()
    assert reported == ["Two has ended", "One has ended"]
    assert is_free(one.port) and is_free(two.port)


def test_a_part_that_dies_is_an_error_with_the_end_of_its_log(state: State) -> None:
    before = set(psutil.Process().children())
    with supervised(state, Toy(name="one"), Toy(name="two")) as (supervisor, _):
        supervisor.up()
        first = min(children(before), key=psutil.Process.create_time)
        orphans = first.children()
        first.kill()
        with pytest.raises(StackError, match=r"^one was killed by SIGKILL; the end of .*one\.log:\n +it listens$"):
            supervisor.watch()
    for orphan in orphans:
        orphan.kill()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (FAILS, r"(?s)^one ended with status 3; .*no room for the data"),
        (SILENT, r"^One does not answer within 1 s \(nobody listens\); the end of .*one\.log"),
    ],
)
def test_a_part_that_does_not_start(code: str, message: str, state: State) -> None:
    part = Toy(code, "one")
    part.patience = 1.0  # type: ignore[misc]
    with supervised(state, part, Toy(name="two")) as (supervisor, _), pytest.raises(StackError, match=message):
        supervisor.up()
    assert not state.log("two").exists()


def test_a_program_that_does_not_exist(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "prepare", lambda _: Launch(["/no/such/program"]))
    message = r"^toy cannot be started: .*No such file or directory: '/no/such/program'"
    with supervised(state, Toy()) as (supervisor, _), pytest.raises(StackError, match=message):
        supervisor.up()


def test_ports_in_use_are_all_named_and_nothing_is_started(state: State) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        used = [Toy(name=name, port=server.getsockname()[1]) for name, server in (("one", first), ("two", second))]
        with supervised(state, Toy(name="free"), *used) as (supervisor, reported), pytest.raises(RefusedError) as error:
            supervisor.up()
    for part in used:
        assert f"127.0.0.1:{part.port} (--port {part.name}, for {part.title})" in str(error.value)
    assert reported == []
    assert not state.log("free").exists()


def test_a_process_that_does_not_end_is_killed(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PATIENCE", 0.5)
    with supervised(state, Toy(STUBBORN)) as (supervisor, reported):
        supervisor.up()
    assert reported[-1] == "Toy did not end and was killed"


def test_the_log_of_the_previous_start_is_kept(state: State) -> None:
    for _ in range(2):
        with supervised(state, Toy(FAILS)) as (supervisor, _), pytest.raises(StackError):
            supervisor.up()
    assert state.log("toy").read_text() == state.log("toy").with_suffix(".log.1").read_text() != ""
