"""Parts that start, die, hang or refuse to end; and a supervisor that is killed."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.stack.errors import RefusedError, StackError
from infra.stack.part import Part
from infra.stack.ports import is_free
from infra.stack.processes import Child, Launch, is_alive, marked
from infra.stack.state import State
from infra.stack.supervisor import StoppedError, Supervisor
from tests.processes import Running
from tests.unit.stack.parts import FAILS, SILENT, STUBBORN, SUPERVISED, Toy


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "stack")


@contextmanager
def supervised(state: State, *parts: Part, asked: list[bool] | None = None) -> Iterator[tuple[Supervisor, list[str]]]:
    said: list[str] = []
    with state.locked() as lock:
        supervisor = Supervisor(state, parts, lock, said.append, lambda: bool(asked))
        try:
            yield supervisor, said
        finally:
            supervisor.down()
    assert marked(state.path) == []


def test_parts_start_in_order_and_end_in_reverse_with_all_their_children(state: State) -> None:
    one, two = Toy(name="one"), Toy(name="two")
    with supervised(state, one, two) as (supervisor, said):
        supervisor.up()
        assert [line.split(" (")[0] for line in said] == [f"{p.title} answers at {p.address}" for p in (one, two)]
        assert (one.settled, two.settled) == (1, 1)
        assert len(marked(state.path)) == 4, "two parts and a child of each"
        supervisor.watch(lambda: True)
        said.clear()
    assert said == ["Two has ended", "One has ended"]
    assert is_free(one.port) and is_free(two.port)


def test_a_part_that_dies_is_an_error_with_the_end_of_its_log(state: State) -> None:
    one, two = Toy(name="one"), Toy(name="two")
    with supervised(state, one, two) as (supervisor, _):
        supervisor.up()
        victim = next(process for process in marked(state.path) if str(one.port) in process.cmdline())
        victim.send_signal(signal.SIGKILL)
        with pytest.raises(StackError, match=r"^one was killed by SIGKILL; the end of .*one\.log:\n +it listens$"):
            supervisor.watch()
    assert is_free(two.port)


def test_a_part_that_fails_at_once_is_said_before_the_next_starts(state: State) -> None:
    with supervised(state, Toy(FAILS, "one"), Toy(name="two")) as (supervisor, _):
        with pytest.raises(StackError, match=r"(?s)^one ended with status 3; .*no room for the data"):
            supervisor.up()
        assert not state.log("two").exists()


def test_a_part_that_never_answers_is_given_up(state: State) -> None:
    part = Toy(SILENT, "one")
    part.patience = 1.0  # type: ignore[misc]
    message = r"^One does not answer within 1 s \(nobody listens\); the end of .*one\.log"
    with supervised(state, part) as (supervisor, _), pytest.raises(StackError, match=message):
        supervisor.up()


def test_a_program_that_is_not_there_is_said(state: State) -> None:
    class Absent(Toy):
        def prepare(self) -> Launch:
            return Launch(["/no/such/program"])

    message = r"^toy cannot be started: .*No such file or directory: '/no/such/program'"
    with supervised(state, Absent()) as (supervisor, _), pytest.raises(StackError, match=message):
        supervisor.up()


def test_ports_that_are_taken_are_all_named_and_nothing_is_started(state: State) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        taken = [Toy(name=name, port=one.getsockname()[1]) for name, one in (("one", first), ("two", second))]
        parts = supervised(state, Toy(name="free"), *taken)
        with parts as (supervisor, said), pytest.raises(RefusedError) as refused:
            supervisor.up()
    for part in taken:
        assert f"127.0.0.1:{part.port} (--{part.name}-port, for {part.title}) is taken by " in str(refused.value)
    assert "--free-port" not in str(refused.value).partition(". Stop")[0]
    assert said == []
    assert not state.log("free").exists()


def test_what_asks_for_the_end_during_the_start_is_heard(state: State) -> None:
    asked = [True]
    begin = time.monotonic()
    with supervised(state, Toy(SILENT), asked=asked) as (supervisor, _), pytest.raises(StoppedError):
        supervisor.up()
    assert time.monotonic() - begin < Toy.patience


def test_a_process_that_does_not_end_is_killed_with_its_children(state: State) -> None:
    part = Toy(STUBBORN)
    with supervised(state):
        child = Child("toy", part.prepare(), state.log("toy"), state.path)
        while "it listens" not in child.tail():
            assert child.status() is None, child.tail()
            time.sleep(0.05)
        assert len(marked(state.path)) == 2
        assert child.stop(signal.SIGTERM, patience=0.5) is False
        assert marked(state.path) == []


def test_the_log_of_the_start_before_is_kept(state: State) -> None:
    for _ in range(2):
        with supervised(state, Toy(FAILS)) as (supervisor, _), pytest.raises(StackError):
            supervisor.up()
    assert state.log("toy").read_text() == state.log("toy").with_suffix(".log.1").read_text() != ""


# --- a supervisor that is killed -------------------------------------------------------------------------------------


def test_the_guard_ends_what_a_killed_supervisor_leaves(state: State, tmp_path: Path) -> None:
    with Running(["-c", SUPERVISED, str(state)], tmp_path) as running:
        running.wait_until(lambda: "up" in running.output().split(), "the stack")
        assert len(marked(state.path)) == 4
        running.signal(signal.SIGKILL)
        running.process.wait(30)
        with state.locked():  # waits for the guard, who holds it
            assert marked(state.path) == []


def test_what_a_killed_supervisor_and_its_guard_leave_is_ended_by_the_next_stack(state: State, tmp_path: Path) -> None:
    with Running(["-c", SUPERVISED, str(state)], tmp_path) as running:
        running.wait_until(lambda: "up" in running.output().split(), "the stack")
        left = marked(state.path)
        (guard,) = running.children("infra.stack.guard")
        running.signal(signal.SIGSTOP)
        guard.kill()
        running.signal(signal.SIGKILL)
        running.process.wait(30)
        assert len(left) == len(marked(state.path)) == 4
        part = Toy()
        with supervised(state, part) as (supervisor, said):
            supervisor.up()
            assert said[0] == f"Ended 4 processes that an earlier stack in {state} had left."
            assert not [process for process in left if is_alive(process)]
