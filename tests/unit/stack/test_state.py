"""The folder of a stack: one stack at a time, passwords that only their owner reads, a file that shells read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from infra.stack.errors import RefusedError
from infra.stack.state import State, write_private
from tests.processes import Running

REPO = Path(__file__).parents[3]
HOLDS = """
import sys, time
from pathlib import Path
from infra.stack.state import State
with State(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "stack")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- the lock --------------------------------------------------------------------------------------------------------


def test_a_second_stack_in_a_folder_is_refused_and_the_folder_is_free_after_the_first(state: State) -> None:
    with state.locked():
        assert state.supervisor() == os.getpid()
        refusal = rf"a stack runs in {state} already \(process {os.getpid()}\); stop it"
        with pytest.raises(RefusedError, match=refusal), State(state.path).locked():
            pass
    assert state.supervisor() is None
    with state.locked():
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(state: State, tmp_path: Path) -> None:
    with Running(["-c", HOLDS, str(state)], tmp_path, {"PYTHONPATH": str(REPO)}) as holder:
        holder.wait_until(lambda: "held" in holder.output(), "the lock")
        assert state.supervisor() == holder.process.pid
        holder.kill()
    assert state.supervisor() is None
    with state.locked():
        assert state.supervisor() == os.getpid()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RefusedError, match=r"cannot hold a stack"), State(tmp_path / "file").locked():
        pass


# --- passwords -------------------------------------------------------------------------------------------------------


def test_passwords_are_made_once_differ_and_are_read_by_their_owner_alone(state: State) -> None:
    with state.locked():
        made = state.secrets()
    values = {getattr(made, name) for name in made.__dataclass_fields__}
    assert len(values) == len(made.__dataclass_fields__)
    assert min(map(len, values)) >= 32
    assert mode(state.path / "secrets.json") == 0o600
    assert State(state.path).secrets() == made
    other = State(state.path.with_name("other"))
    with other.locked():
        assert other.secrets() != made


def test_passwords_that_others_may_read_or_that_are_none_are_refused(state: State) -> None:
    with state.locked():
        state.secrets()
    path = state.path / "secrets.json"
    path.chmod(0o644)
    with pytest.raises(RefusedError, match=f"chmod 600 {path}"):
        state.secrets()
    write_private(path, '{"postgres": "x"}')
    with pytest.raises(RefusedError, match="does not hold a stack's passwords"):
        state.secrets()


def test_the_folder_is_closed_to_others_up_to_passing_through(state: State) -> None:
    with state.locked():
        assert mode(state.path) == (0o711 if os.geteuid() == 0 else 0o700)
        assert mode(state.path / "logs") == 0o700


# --- the file for shells ---------------------------------------------------------------------------------------------


def test_a_shell_that_reads_the_file_has_every_value_as_it_is(state: State) -> None:
    strange = 'it\'s "so" $HOME `id` \\ ; * end'
    with state.locked():
        state.write_env({"AGGGEN_A": strange, "AGGGEN_B": "http://127.0.0.1:9000"})
    assert mode(state.env_file) == 0o600
    code = "import os; print(os.environ['AGGGEN_A'], os.environ['AGGGEN_B'], os.environ.get('AWS_SESSION_TOKEN'))"
    done = subprocess.run(
        ["sh", "-c", f'. "$1"; "$2" -c "{code}"', "sh", str(state.env_file), sys.executable],
        env=os.environ | {"AWS_SESSION_TOKEN": "of another store"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{strange} http://127.0.0.1:9000 None"


def test_a_private_file_replaces_an_open_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o666)
    write_private(path, "new")
    assert (path.read_text(), mode(path), [one.name for one in tmp_path.iterdir()]) == ("new", 0o600, ["file"])
