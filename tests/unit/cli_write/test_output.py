"""Output is written atomically, never over the input, and also into pipes and devices."""

import os
import subprocess
import threading
from pathlib import Path
from unittest.mock import patch

import pytest

from agggen.bundle import load_bundle
from agggen.generation.generator import Generator
from agggen.records import Record
from agggen_platform.cli import records as cli_records
from tests.command import Run, check_refused
from tests.unit.cli_write.examples import COMMAND, ENVIRONMENT, RESTAURANTS, TWO_PARTS, json_lines, parsed


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        ("records.jsonl", 2, "--output records.jsonl would overwrite the input; give another file"),
        (".", 2, "cannot write .: it is a folder; give a file in it"),
        ("records.jsonl/deeper/out.jsonl", 5, "records.jsonl/deeper/out.jsonl: Not a directory"),
    ],
)
def test_an_invalid_output(run: Run, bundle: Path, records: Path, output: str, code: int, message: str) -> None:
    before = records.read_bytes()
    check_refused(run("plan", bundle, "-i", records, "-o", output), code, message)
    assert records.read_bytes() == before


def test_a_full_disk_is_exit_code_5_and_leaves_no_file(bundle: Path, records: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", *COMMAND]  # simulates a full disk
    done = subprocess.run(
        [*limited, "plan", str(bundle), "-i", str(records), "-o", str(folder / "out.jsonl")],
        env=ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 5
    assert f"cannot write {folder / 'out.jsonl'}: it exceeds the largest file size here" in done.stderr
    assert list(folder.iterdir()) == []


def test_a_pipe_is_written_to_and_not_replaced(run: Run, bundle: Path, tmp_path: Path) -> None:
    """Regression: the finished file replaced the target, so `-o /dev/null` by root removed the device."""
    json_lines(tmp_path / "r.jsonl", [RESTAURANTS[0], TWO_PARTS])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    code, out, err = run("plan", bundle, "-i", "r.jsonl", "-o", "pipe")
    assert pipe.is_fifo()
    reader.join(10)
    assert (code, out) == (0, "")
    assert [line["id"] for line in parsed(read[0])] == ["1"]
    assert err.startswith("1 of 2 records rejected")
    assert not (tmp_path / "pipe.rejects.jsonl").exists()


def test_a_symbolic_link_is_followed_and_kept(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    assert run("plan", bundle, "-i", records, "-o", "link.jsonl")[0] == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(parsed((tmp_path / "real.jsonl").read_text(encoding="utf-8"))) == len(RESTAURANTS)


def test_an_interrupted_run_keeps_the_earlier_output(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("the earlier output")
    first = load_bundle(bundle).generator().generate([Record.of(record) for record in RESTAURANTS[:2]])
    interrupted = patch.object(Generator, "generate", side_effect=[first, KeyboardInterrupt])
    with patch.object(cli_records, "_BATCH_RECORDS", 2), interrupted:
        assert run("generate", bundle, "-i", records, "-o", "out.jsonl")[0] == 130
    assert (tmp_path / "out.jsonl").read_text() == "the earlier output"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "records.jsonl"]
