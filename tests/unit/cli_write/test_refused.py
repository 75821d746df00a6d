"""Invalid records, options, plans, bundles and outputs; output is written atomically, also into pipes and devices."""

import json
import os
import threading
from pathlib import Path
from unittest.mock import patch

import pytest

from agggen.bundle import load_bundle
from agggen.generation.generator import Generator
from agggen.records import Record
from agggen_platform.cli import records as cli_records
from tests.command import Run, check_refused
from tests.unit.cli_write.examples import RESTAURANTS, TWO_PARTS, json_lines, parsed
from tests.unit.storage.test_storage import files_of_at_most


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plan", "[fod] [near]"), "record '1': the record has no predicate 'fod'; did you mean food?"),
        (("--plan", "[food]"), "plan for record '1' omits near; add them, or"),
        (("--plan", "[food near] [food]"), "column 14 of plan '[food near] [food]': 'food' occurs a second time"),
        (("--plan", "[fod]", "--complete"), "did you mean food?"),
        (("--complete",), "--complete needs --plan"),
        (("--plan", "[food] [near]", "level=1"), "level=1 cannot be combined with --plan"),
        (("level=4",), "aggregation level 4 exceeds this model's largest group of 3 predicates"),
        (("planner=exakt",), "'planner' must be 'exact', 'two-stage' or 'sample', not 'exakt'"),
    ],
)
def test_an_invalid_option(run: Run, bundle: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    path = json_lines(tmp_path / "one.jsonl", RESTAURANTS[:1])
    check_refused(run("generate", bundle, "-i", path, *options), 2, message)


def test_a_plan_that_fits_some_records_rejects_the_others(run: Run, bundle: Path, records: Path) -> None:
    code, out, err = run("generate", bundle, "-i", records, "--plan", "[near food]")
    assert (code, [line["id"] for line in parsed(out)]) == (0, ["1"])
    assert "4 of 5 records rejected, first: plan for record '2' omits eatType" in err
    assert "--output FILE lists all in FILE.rejects.jsonl" in err


@pytest.mark.parametrize("command", ["generate", "plan", "align", "inspect"])
def test_an_unknown_bundle_is_exit_code_3(run: Run, command: str) -> None:
    check_refused(run(command, "nowhere"), 3, "no bundle at nowhere; `agggen train` writes one and prints its path")


FORTY = {"id": "forty", "triples": [["a", f"p{number}", "b"] for number in range(40)]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", None, "cannot read r.jsonl: No such file or directory"),
        ("r.jsonl", b"", "r.jsonl is empty"),
        ("r.jsonl", b"\n\n", "the input contains no records"),
        ("r.jsonl", json.dumps(TWO_PARTS).encode(), "a triple needs 3 parts (subject, predicate, object), this has 2"),
        ("r.parquet", b"PAR1", "r.parquet is not a Parquet file"),
        ("r.jsonl", json.dumps(FORTY).encode(), "record 'forty' has 40 triples; at most 24"),
    ],
)
@pytest.mark.parametrize("command", ["generate", "plan", "align"])
def test_unusable_input(run: Run, bundle: Path, command: str, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    check_refused(run(command, bundle, "-i", name), 2, message)


def test_valid_records_are_written_and_the_others_are_listed(run: Run, bundle: Path, tmp_path: Path) -> None:
    lines = [json.dumps(value).encode() for value in (RESTAURANTS[0], TWO_PARTS, FORTY)]
    lines += [b'{"id": "n\0"}', b"x" * 10_000_001, b"[1", json.dumps(RESTAURANTS[0]).encode()]
    lines += [json.dumps(RESTAURANTS[4]).encode()]
    (tmp_path / "mixed.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    code, out, err = run("generate", bundle, "-i", "mixed.jsonl", "-o", "new/folder/out.jsonl")
    assert (code, out) == (0, "")
    assert err.startswith("6 of 8 records rejected, first: record '7': a triple needs 3 parts")
    assert "(mixed.jsonl, line 2); see new/folder/out.jsonl.rejects.jsonl" in err
    written = parsed((tmp_path / "new/folder/out.jsonl").read_text(encoding="utf-8"))
    assert [line["id"] for line in written] == ["1", "5"]
    rejects = parsed((tmp_path / "new/folder/out.jsonl.rejects.jsonl").read_text(encoding="utf-8"))
    assert all(set(reject) == {"file", "line", "id", "reason"} for reject in rejects)
    assert {reject["file"] for reject in rejects} == {"mixed.jsonl"}
    assert sorted(reject["line"] or 0 for reject in rejects) == [0, 2, 4, 5, 6, 7]
    by_id = {reject["id"]: reject["reason"] for reject in rejects}
    assert by_id["forty"].startswith("record 'forty' has 40 triples")
    assert by_id["1"] == "line 1 has the same id"
    assert sorted(path.name for path in (tmp_path / "new/folder").iterdir()) == ["out.jsonl", "out.jsonl.rejects.jsonl"]


def test_without_a_valid_record_there_are_only_rejects_until_the_next_run(run: Run, bundle: Path) -> None:
    json_lines(Path("r.jsonl"), [TWO_PARTS, FORTY])
    result = run("plan", bundle, "-i", "r.jsonl", "-o", "out.jsonl")
    check_refused(result, 2, "no record could be used: record '7': a triple needs 3 parts")
    assert len(parsed(Path("out.jsonl.rejects.jsonl").read_text())) == 2
    assert not Path("out.jsonl").exists()
    json_lines(Path("r.jsonl"), [RESTAURANTS[0]])
    assert run("plan", bundle, "-i", "r.jsonl", "-o", "out.jsonl") == (0, "", "")
    assert Path("out.jsonl").exists() and not Path("out.jsonl.rejects.jsonl").exists()


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


def test_a_full_disk_is_exit_code_5_and_leaves_no_file(run: Run, bundle: Path, records: Path) -> None:
    with files_of_at_most(0):
        result = run("plan", bundle, "-i", records, "-o", "out/out.jsonl")
    message = f"cannot write {Path('out/out.jsonl').resolve()}: it exceeds the largest file size here"
    check_refused(result, 5, message)
    assert list(Path("out").iterdir()) == []


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
