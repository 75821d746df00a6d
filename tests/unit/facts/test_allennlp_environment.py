"""AllenNLP's environment: where it is looked for, how it is made, and that a broken or half made one says so."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agggen.facts.allennlp import install, pins
from agggen.facts.allennlp.environment import (
    NEEDED,
    STAMP,
    cache_folder,
    environment_folder,
    find_environment,
    read_stamp,
    worker_environment,
)
from agggen.facts.allennlp.errors import AllenNLPError
from agggen.facts.allennlp.install import HOW_TO_GET_PYTHON, LOG, find_python, set_up

MADE_WITH = (3, 10)


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and no Python anywhere."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    for name in ("AGGGEN_SRL_ENV", "AGGGEN_CACHE", "XDG_CACHE_HOME", "PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setattr(install, "_PLACES", {})
    return home


def fake_python(path: Path, version: tuple[int, int] = MADE_WITH, status: int = 0) -> Path:
    """Answers the question for its version as a Python would, whatever is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '[[{version[0]}, {version[1]}], \"{path}\"]'\nexit {status}\n")
    path.chmod(0o755)
    return path


def install_packages(folder: Path, names: Sequence[str] = NEEDED) -> None:
    for name in names:
        about = folder / "lib" / "python3.10" / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('-', '_')}\nVersion: 1.0\n")


# --- where it is -------------------------------------------------------------------------------------------------


def test_it_is_in_the_cache_unless_something_says_where(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment_folder() == empty_machine / ".cache" / "agggen" / "srl-env"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert environment_folder() == Path("/xdg/agggen/srl-env")
    monkeypatch.setenv("AGGGEN_CACHE", "/cache")
    assert environment_folder() == cache_folder() / "srl-env" == Path("/cache/srl-env")
    monkeypatch.setenv("AGGGEN_SRL_ENV", "~/there")
    assert environment_folder() == empty_machine / "there"
    assert environment_folder("/given") == Path("/given")


def test_where_there_is_none_the_way_to_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(AllenNLPError, match=r"no environment for AllenNLP in .*/none; make one with `agggen srl setup"):
        find_environment(tmp_path / "none")


def test_an_environment_of_ones_own_will_do(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "bin" / "python")
    install_packages(tmp_path)
    found = find_environment(tmp_path)
    assert found.python == python
    assert found.versions == dict.fromkeys(NEEDED, "1.0")


def test_an_environment_that_lacks_something_says_what(tmp_path: Path) -> None:
    fake_python(tmp_path / "bin" / "python")
    install_packages(tmp_path, [name for name in NEEDED if name != "allennlp-models"])
    with pytest.raises(AllenNLPError, match="lacks allennlp-models; make one"):
        find_environment(tmp_path)


def test_the_worker_gets_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "MLFLOW_TRACKING_PASSWORD",
        "RAY_AUTH_TOKEN_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    env = worker_environment(tmp_path, online=False)
    assert "secret" not in env.values()
    assert env["OMP_NUM_THREADS"] == "1"
    assert (env["TMPDIR"], env["HF_HUB_OFFLINE"]) == (str(tmp_path), "1")
    assert "HF_HUB_OFFLINE" not in worker_environment(tmp_path, online=True)


# --- a Python for it ---------------------------------------------------------------------------------------------


def test_without_a_fitting_python_the_ways_to_one_are_said(empty_machine: Path) -> None:
    fake_python(empty_machine / "bin" / "python3.11", (3, 11))
    with pytest.raises(AllenNLPError, match=r"uv python install 3\.10") as error:
        find_python()
    assert str(error.value) == HOW_TO_GET_PYTHON


def test_the_newest_fitting_python_is_taken(empty_machine: Path) -> None:
    nine = fake_python(empty_machine / "bin" / "python3.9", (3, 9))
    fake_python(empty_machine / "bin" / "python3.8", (3, 8))
    assert find_python() == (nine, (3, 9))
    ten = fake_python(empty_machine / ".pyenv" / "versions" / "3.10.13" / "bin" / "python3.10")
    assert find_python() == (ten, (3, 10))


def test_a_shim_without_a_python_behind_it_is_passed_over(empty_machine: Path) -> None:
    shim = empty_machine / "bin" / "python3.10"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.10: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    real = fake_python(empty_machine / ".local/share/uv/python/cpython-3.10.9-linux/bin/python3.10")
    assert find_python() == (real, (3, 10))


def test_the_given_python_must_fit(empty_machine: Path, tmp_path: Path) -> None:
    nine = fake_python(empty_machine / "bin" / "python3.9", (3, 9))
    assert find_python("python3.9") == find_python(nine) == (nine, (3, 9))
    eleven = fake_python(tmp_path / "python", (3, 11))
    with pytest.raises(AllenNLPError, match=r"is Python 3\.11; AllenNLP needs one of 3\.10, 3\.9"):
        find_python(eleven)
    with pytest.raises(AllenNLPError, match="absent is no Python that can make virtual environments"):
        find_python(tmp_path / "absent")


def test_this_very_python_is_probed_as_it_is() -> None:
    """The question that the fakes above answer can be answered by a real one."""
    with pytest.raises(AllenNLPError, match=rf"is Python {sys.version_info[0]}\.{sys.version_info[1]}; AllenNLP needs"):
        find_python(sys.executable)


# --- making it ---------------------------------------------------------------------------------------------------


class Steps:
    """Stands in for what `set_up` runs: venv, pip, and the worker at the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[list[str]] = []
        self.pip_works = self.worker_works = True
        monkeypatch.setattr(install, "_run", self.run)
        monkeypatch.setattr(install, "worker_versions", self.versions)

    def run(self, command: Sequence[str | Path], place: Path) -> None:
        self.commands.append([str(part) for part in command])
        if "venv" in self.commands[-1]:
            fake_python(place / "bin" / "python")
        elif self.pip_works:
            install_packages(place)
        else:
            raise AllenNLPError("pip: no space left")

    def versions(self, *_: object) -> dict[str, Any]:
        if not self.worker_works:
            raise AllenNLPError("numpy is too new")
        return {"torch": "1.12.1"}

    @property
    def kinds(self) -> list[str]:
        return ["venv" if "venv" in command else "pip" for command in self.commands]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, empty_machine: Path) -> Steps:
    fake_python(empty_machine / "bin" / "python3.10")
    return Steps(monkeypatch)


def test_it_is_made_once(steps: Steps, tmp_path: Path) -> None:
    said: list[str] = []
    made = set_up(tmp_path / "env", say=said.append)
    assert made == set_up(tmp_path / "env", say=said.append) == find_environment(tmp_path / "env")
    assert steps.kinds == ["venv", "pip"]
    assert said[-1] == f"{tmp_path / 'env'} is complete"
    assert read_stamp(tmp_path / "env")["versions"] == {"torch": "1.12.1"}


@pytest.mark.parametrize("broken", ["pip_works", "worker_works"])
def test_a_failed_one_is_no_environment_and_goes_on_when_called_again(
    steps: Steps, tmp_path: Path, broken: str
) -> None:
    setattr(steps, broken, False)
    with pytest.raises(AllenNLPError, match=r"no space left|too new"):
        set_up(tmp_path / "env")
    with pytest.raises(AllenNLPError, match="half made; run `agggen srl setup"):
        find_environment(tmp_path / "env")
    setattr(steps, broken, True)
    assert set_up(tmp_path / "env") == find_environment(tmp_path / "env")


def test_another_python_cannot_go_on_where_one_began(steps: Steps, tmp_path: Path, empty_machine: Path) -> None:
    steps.pip_works = False
    with pytest.raises(AllenNLPError, match="no space left"):
        set_up(tmp_path / "env")
    nine = fake_python(empty_machine / "bin" / "python3.9", (3, 9))
    with pytest.raises(AllenNLPError, match=r"was begun with Python 3\.10; go on with that, or use --recreate"):
        set_up(tmp_path / "env", python=nine)
    steps.pip_works = True
    set_up(tmp_path / "env", python=nine, recreate=True)
    assert read_stamp(tmp_path / "env")["python"] == [3, 9]


def test_a_folder_with_something_else_is_left_alone(steps: Steps, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "thesis.txt").write_text("years of work")
    for recreate in (False, True):
        with pytest.raises(AllenNLPError, match="is not empty and was not made by `agggen srl setup`"):
            set_up(tmp_path / "env", recreate=recreate)
    assert (tmp_path / "env" / "thesis.txt").read_text() == "years of work"
    assert steps.commands == []


def test_the_lock_is_for_the_python_it_was_made_with(steps: Steps, tmp_path: Path, empty_machine: Path) -> None:
    set_up(tmp_path / "a")
    set_up(tmp_path / "b", locked=False)
    set_up(tmp_path / "c", python=fake_python(empty_machine / "bin" / "python3.9", (3, 9)))
    installs = [command for command in steps.commands if "allennlp==2.10.1" in command]
    assert ["-c" in command for command in installs] == [True, False, False]
    assert (tmp_path / "a" / "constraints.txt").read_text() == pins.lock()


def test_a_step_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = fake_python(tmp_path / "bin" / "pip", status=3)
    (tmp_path / LOG).write_text("an earlier run\n")
    with pytest.raises(AllenNLPError, match=r"ended with exit status 3; run it again(?s:.*)\n  \[\[3, 10\]") as error:
        install._run([script, "install"], tmp_path)
    assert "earlier" not in str(error.value)


def test_a_stamp_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / STAMP).write_text("{")
    with pytest.raises(AllenNLPError, match=f"delete {tmp_path} and set it up anew"):
        read_stamp(tmp_path)


def test_the_lock_holds_what_is_required() -> None:
    locked = [line.partition("==")[0].lower() for line in pins.lock().splitlines()]
    assert set(NEEDED) <= {name.partition("<")[0] for name in locked}
    assert all("==" in line or line == "numpy<2" for line in pins.lock().splitlines())


@pytest.mark.slow
def test_a_real_virtual_environment_without_allennlp_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """venv and the worker for real; only pip and the version of Python are not AllenNLP's."""
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(install, "PYTHONS", (sys.version_info[:2],))
    monkeypatch.setattr(install, "_install", lambda *_: install_packages(tmp_path / "env"))
    base = shutil.which("python3", path=str(Path(sys.base_prefix) / "bin")) or sys.executable
    with pytest.raises(AllenNLPError, match=r"does not work: ModuleNotFoundError: No module named 'torch'"):
        set_up(tmp_path / "env", python=base)
    assert (tmp_path / "env" / "bin" / "pip").exists()
    assert read_stamp(tmp_path / "env")["complete"] is False
