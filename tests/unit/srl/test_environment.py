"""AllenNLP's environment: where it is looked for, how it is made, and that a broken or half made one says so."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.srl import environment
from agggen_platform.srl.environment import (
    CONSTRAINTS,
    HOW_TO_GET_PYTHON,
    LOG,
    NEEDED,
    STAMP,
    environment_folder,
    find_environment,
    find_python,
    set_up,
    worker_environment,
)
from agggen_platform.srl.errors import AllenNLPError


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and no Python on the PATH."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    for name in ("AGGGEN_SRL_ENV", "AGGGEN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(home / "bin"))
    return home


def fake_python(path: Path, version: str = "3.10", status: int = 0) -> Path:
    """Prints its version and address, whatever is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version} {path if version else ''}\nexit {status}\n")
    path.chmod(0o755)
    return path


def install_packages(folder: Path, names: Sequence[str] = NEEDED) -> None:
    for name in names:
        about = folder / "lib" / "python3.10" / "site-packages" / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('-', '_')}\nVersion: 1.0\n")


# --- where it is -----------------------------------------------------------------------------------------------------


def test_it_is_in_the_cache_unless_something_says_where(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment_folder() == empty_machine / ".cache" / "agggen" / "srl-env"
    for name, value, expected in (
        ("XDG_CACHE_HOME", "/xdg", Path("/xdg/agggen/srl-env")),
        ("AGGGEN_CACHE", "/cache", Path("/cache/srl-env")),
        ("AGGGEN_SRL_ENV", "~/there", empty_machine / "there"),
    ):
        monkeypatch.setenv(name, value)
        assert environment_folder() == expected
    assert environment_folder("/given") == Path("/given")


def test_an_environment_of_ones_own_will_do_and_one_that_lacks_something_says_what(tmp_path: Path) -> None:
    with pytest.raises(AllenNLPError, match=r"no environment for AllenNLP in .*/none; make one with `agggen srl setup"):
        find_environment(tmp_path / "none")
    python = fake_python(tmp_path / "bin" / "python")
    install_packages(tmp_path, [name for name in NEEDED if name != "allennlp-models"])
    with pytest.raises(AllenNLPError, match="lacks allennlp-models; make one"):
        find_environment(tmp_path)
    install_packages(tmp_path)
    found = find_environment(tmp_path)
    assert (found.python, found.versions) == (python, dict.fromkeys(NEEDED, "1.0"))


def test_the_worker_gets_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "RAY_AUTH_TOKEN_PATH", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    env = worker_environment(tmp_path, online=False)
    assert "secret" not in env.values()
    assert env["OMP_NUM_THREADS"] == "1"
    assert (env["TMPDIR"], env["HF_HUB_OFFLINE"]) == (str(tmp_path), "1")
    assert "HF_HUB_OFFLINE" not in worker_environment(tmp_path, online=True)


# --- a Python for it -------------------------------------------------------------------------------------------------


def test_the_newest_fitting_python_on_the_path_is_taken(empty_machine: Path) -> None:
    fake_python(empty_machine / "bin" / "python3.8", "3.8")
    with pytest.raises(AllenNLPError, match=r"uv python install 3\.10") as error:
        find_python()
    assert str(error.value) == HOW_TO_GET_PYTHON
    nine = fake_python(empty_machine / "bin" / "python3.9", "3.9")
    shim = fake_python(empty_machine / "bin" / "python3.10", "", status=127)  # of pyenv, with no Python behind it
    assert find_python() == find_python(str(nine)) == (str(nine), "3.9")
    ten = fake_python(shim)
    assert find_python() == (str(ten), "3.10")


def test_a_python_of_pyenv_is_found_although_it_is_not_the_chosen_one(empty_machine: Path) -> None:
    shim, behind = fake_python(empty_machine / "bin" / "python3.10"), empty_machine / "versions" / "3.10.13" / "python"
    shim.write_text(f'#!/bin/sh\n[ "$PYENV_VERSION" = 3.10 ] || exit 127\necho 3.10 {behind}\n')
    assert find_python() == (str(behind), "3.10")


def test_the_given_python_must_fit(empty_machine: Path, tmp_path: Path) -> None:
    for given, message in (
        (
            str(fake_python(empty_machine / "bin" / "python3.12", "3.12")),
            r"is Python 3\.12; AllenNLP needs Python 3\.10",
        ),
        (str(tmp_path / "absent"), "is no Python that can make virtual environments"),
    ):
        with pytest.raises(AllenNLPError, match=message):
            find_python(given)


# --- making it -------------------------------------------------------------------------------------------------------


class Steps:
    """Stands in for what `set_up` runs: venv, pip, and the worker at the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[list[str]] = []
        self.pip_works = self.worker_works = True
        monkeypatch.setattr(environment, "_run", self.run)
        monkeypatch.setattr(environment, "worker_versions", self.versions)

    def run(self, command: Sequence[str | Path], place: Path, hint: str = "") -> None:
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


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, empty_machine: Path) -> Steps:
    fake_python(empty_machine / "bin" / "python3.10")
    return Steps(monkeypatch)


def test_it_is_made_once(steps: Steps, tmp_path: Path) -> None:
    said: list[str] = []
    made = set_up(tmp_path / "env", say=said.append)
    assert made == set_up(tmp_path / "env", say=said.append) == find_environment(tmp_path / "env")
    assert ["venv" in command for command in steps.commands] == [True, False]
    assert said[-1] == f"{tmp_path / 'env'} is complete"


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


@pytest.mark.parametrize(
    ("name", "message"),
    [("thesis.txt", "is not empty and was not made by `agggen srl setup`"), (STAMP, "and set it up anew")],
)
def test_a_folder_with_something_else_is_left_alone(steps: Steps, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / name).write_text("{")
    with pytest.raises(AllenNLPError, match=message):
        set_up(tmp_path / "env")
    assert (tmp_path / "env" / name).read_text() == "{"
    assert steps.commands == []


def test_the_lock_is_for_the_python_it_was_made_with(steps: Steps, tmp_path: Path, empty_machine: Path) -> None:
    set_up(tmp_path / "a")
    set_up(tmp_path / "b", locked=False)
    set_up(tmp_path / "c", python=str(fake_python(empty_machine / "bin" / "python3.9", "3.9")))
    installs = [command for command in steps.commands if "allennlp==2.10.1" in command]
    assert [str(CONSTRAINTS) in command for command in installs] == [True, False, False]
    locked = {line.partition("==")[0] for line in CONSTRAINTS.read_text().splitlines()}
    assert set(NEEDED) <= locked


def test_a_step_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = fake_python(tmp_path / "bin" / "pip", "no such version", status=3)
    (tmp_path / LOG).write_text("an earlier run\n")
    with pytest.raises(AllenNLPError, match=r"status 3; run it again to go on; hint\.(?s:.*)\n  no such ver") as error:
        environment._run([script, "install"], tmp_path, "; hint")
    assert "earlier" not in str(error.value)


@pytest.mark.slow
def test_a_real_virtual_environment_without_allennlp_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """venv and the worker for real; only pip and the version of Python are not AllenNLP's."""
    run = environment._run
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(environment, "PYTHONS", (f"{sys.version_info[0]}.{sys.version_info[1]}",))
    monkeypatch.setattr(environment, "_run", lambda command, *rest: "pip" in command or run(command, *rest))
    base = shutil.which("python3", path=str(Path(sys.base_prefix) / "bin")) or sys.executable
    with pytest.raises(AllenNLPError, match=r"does not work: ModuleNotFoundError: No module named 'torch'"):
        set_up(tmp_path / "env", python=base)
    assert (tmp_path / "env" / "bin" / "pip").exists()
    with pytest.raises(AllenNLPError, match="half made"):
        find_environment(tmp_path / "env")
