"""`agggen serve-key`."""

from __future__ import annotations

from pathlib import Path

from agggen_platform.serving.keys import read_keys
from serve.security import KeyRing
from tests.command import Run


def test_it_prints_a_key_and_its_line(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("serve-key", "alice")
    key, line = out.splitlines()
    file = tmp_path / "keys.txt"
    file.write_text(line + "\n")
    file.chmod(0o600)
    assert code == 0 and KeyRing(file).name_of(key.encode()) == "alice"


def test_it_adds_the_line_to_a_file_and_prints_the_key_alone(run: Run) -> None:
    keys = [run("serve-key", name, "--file", "keys.txt", "--until", "2999-12-31")[1].strip() for name in ("a", "b")]
    ring = KeyRing("keys.txt")
    assert [ring.name_of(key.encode()) for key in keys] == ["a", "b"]
    assert {str(key.last_day) for key in read_keys(Path("keys.txt"))} == {"2999-12-31"}


def test_invalid_input_is_refused_and_no_key_is_printed(run: Run) -> None:
    Path("broken").write_text("rubbish\n")
    Path("broken").chmod(0o600)
    Path("open").touch()
    Path("open").chmod(0o666)
    for arguments in (["a b"], [""], ["a", "--file", "broken"], ["a", "--file", "open"], ["a", "--until", "soon"]):
        code, out, error = run("serve-key", *arguments)
        assert code == 2 and not out and error, arguments
    code, out, _ = run("serve-key", "a", "--file", "no/such/folder")
    assert code == 5 and not out
