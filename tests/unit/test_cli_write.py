"""The commands that work on a bundle, as users run them: generate, plan, align, inspect.

The bundle has random weights: what it writes is nonsense, but every path from a file of records to lines of output,
and every message about what cannot be read, is the real one. No test names a real device as an output: the command
must never replace one, and a test that shows that it does must not do harm.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from agggen.bundle import Bundle, save_bundle
from agggen.corpora.prepared import write_records
from agggen.encoding import Encoder
from agggen.generation.generator import Generator, InferenceConfig
from agggen.generation.search import BeamConfig
from agggen.model.joint import JointModel, ModelConfig
from agggen.records import Plan, Record
from agggen.text import Vocabulary
from agggen_platform.cli import records as cli_records
from agggen_platform.cli.main import main

REPO = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'platform'}", "OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "agggen_platform.cli.main"]
BIGGEST = 3  # the model's L

Run = Callable[..., tuple[int | str | None, str, str]]


def restaurant(number: int, name: str, **values: str) -> dict[str, Any]:
    said = " and ".join(f"{key} {value}" for key, value in values.items())
    triples = [[name, key, value] for key, value in values.items()]
    return {"id": str(number), "triples": triples, "references": [f"{name} has {said}."]}


RESTAURANTS = [
    restaurant(1, "Aromi", food="English", near="Crown Hall"),
    restaurant(2, "Café Zoë", eatType="pub", food="日本", near="Blue Door"),
    restaurant(3, "Mill", area="riverside"),
    restaurant(4, "Żubr", eatType="café", food="Polish", near="Mill", area="city"),
    restaurant(5, "Blue Door", food="Thai", area="city"),
]


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [Record.of(record) for record in RESTAURANTS]
    vocabulary = Vocabulary.build(records, "word", 1, 0)
    encoder = Encoder(vocabulary, Encoder.predicate_table(records), BIGGEST)
    torch.manual_seed(5)
    sizes = ModelConfig(width=16, heads=2, layers=1, feed_forward=16, predicate_dim=8, max_state=BIGGEST)
    model = JointModel(sizes, len(vocabulary), vocabulary.n_output, len(encoder.predicates))
    inference = InferenceConfig(plans=2, beam=BeamConfig(beam=2, max_fact_tokens=6))
    path = tmp_path_factory.mktemp("model") / "bundle"
    save_bundle(path, Bundle(model, encoder, inference, {}, {"joint.dev_loss": 1.5}, {"toy/train": "ab12"}))
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process and in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int | str | None, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return ended.value.code, captured.out, captured.err

    return call


def subprocess_of(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env=ENVIRONMENT, stderr=subprocess.PIPE, timeout=120, **options)


def json_lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return json_lines(tmp_path / "records.jsonl", RESTAURANTS)


# --- what is written -------------------------------------------------------------------------------------------------


def test_generate_writes_a_line_for_each_record_in_order(run: Run, bundle: Path, records: Path) -> None:
    code, out, err = run("generate", bundle, "-i", records)
    assert (code, err) == (0, "")
    lines = parsed(out)
    assert [line["id"] for line in lines] == ["1", "2", "3", "4", "5"]
    for line, record in zip(lines, RESTAURANTS, strict=True):
        plan = Plan.parse(line["plan"])
        assert sorted(plan.predicates) == sorted(triple[1] for triple in record["triples"])
        assert [tuple(fact["predicates"]) for fact in line["facts"]] == list(plan.states)
        assert "".join(fact["text"] for fact in line["facts"]) == line["text"]
        assert line["fulfilled"] == (not any("missing" in fact for fact in line["facts"]))
        assert "rank" not in line


def test_n_best_lines_carry_their_rank_and_fall_in_score(run: Run, bundle: Path, records: Path) -> None:
    code, out, _ = run("generate", bundle, "-i", records, "--n-best", "3")
    lines = parsed(out)
    assert code == 0
    assert len(lines) > len(RESTAURANTS)
    for record in RESTAURANTS:
        own = [line for line in lines if line["id"] == record["id"]]
        assert [line["rank"] for line in own] == list(range(1, len(own) + 1))
        assert len(own) <= 3
        assert [line["score"] for line in own] == sorted((line["score"] for line in own), reverse=True)
        assert len({line["text"] for line in own}) == len(own)


@pytest.mark.parametrize("level", [1, 2])
def test_level_limits_every_group(run: Run, bundle: Path, records: Path, level: int) -> None:
    for line in parsed(run("generate", bundle, "-i", records, "--level", level)[1]):
        assert max(len(state) for state in Plan.parse(line["plan"]).states) <= level
    for line in parsed(run("plan", bundle, "-i", records, "--level", level)[1]):
        assert all(len(state) <= level for found in line["plans"] for state in Plan.parse(found["plan"]).states)


def test_a_human_plan_is_followed(run: Run, bundle: Path, tmp_path: Path) -> None:
    one = json_lines(tmp_path / "one.jsonl", RESTAURANTS[3:4])
    code, out, _ = run("generate", bundle, "-i", one, "--plan", "[area] [near food eatType]")
    assert (code, parsed(out)[0]["plan"]) == (0, "[area] [near food eatType]")


def test_complete_adds_what_a_human_plan_omits(run: Run, bundle: Path, tmp_path: Path) -> None:
    one = json_lines(tmp_path / "one.jsonl", RESTAURANTS[3:4])
    code, out, _ = run("generate", bundle, "-i", one, "--plan", "[near area]", "--complete")
    plan = Plan.parse(parsed(out)[0]["plan"])
    assert code == 0
    assert plan.states[0] == ("near", "area")
    assert sorted(plan.predicates) == ["area", "eatType", "food", "near"]


def test_plan_gives_distinct_plans_by_falling_probability(run: Run, bundle: Path, records: Path) -> None:
    code, out, _ = run("plan", bundle, "-i", records, "-k", "4")
    assert code == 0
    for line, record in zip(parsed(out), RESTAURANTS, strict=True):
        found = line["plans"]
        assert line["id"] == record["id"]
        assert 1 <= len(found) <= 4
        assert len({each["plan"] for each in found}) == len(found)
        chances = [each["log_probability"] for each in found]
        assert chances == sorted(chances, reverse=True)
        assert chances[0] <= 0


def test_align_gives_each_fact_its_predicates(run: Run, bundle: Path, tmp_path: Path) -> None:
    text = {"text": "Aromi is English, near Crown Hall.", "facts": ["Aromi is English, ", "near Crown Hall."]}
    record = RESTAURANTS[0] | {"references": [text, "Near Crown Hall."]}
    code, out, _ = run("align", bundle, "-i", json_lines(tmp_path / "r.jsonl", [record]))
    first, second = parsed(out)
    assert code == 0
    assert [(line["id"], line["reference"]) for line in (first, second)] == [("1", 0), ("1", 1)]
    assert [fact["text"] for fact in first["facts"]] == text["facts"]
    assert "".join(fact["text"] for fact in second["facts"]) == "Near Crown Hall."
    for fact in first["facts"]:
        assert set(fact["predicates"]) <= {"food", "near"}
        assert 0 < fact["posterior"] <= 1


def test_a_record_without_a_text_cannot_be_aligned(run: Run, bundle: Path, tmp_path: Path) -> None:
    silent = {key: value for key, value in RESTAURANTS[1].items() if key != "references"}
    path = json_lines(tmp_path / "r.jsonl", [RESTAURANTS[0], silent])
    code, out, err = run("align", bundle, "-i", path)
    assert (code, [line["id"] for line in parsed(out)]) == (0, ["1"])
    assert "1 of 2 records rejected, first: record '2' has no reference text to align" in err


def test_inspect_says_what_is_in_a_bundle(run: Run, bundle: Path) -> None:
    code, out, err = run("inspect", bundle)
    table = dict(line.split("\t") for line in out.splitlines())
    assert (code, err) == (0, "")
    assert len(table["fingerprint"]) == 64
    assert (table["predicates"], table["model.max_state"], table["source toy/train"]) == ("4", "3", "ab12")
    assert table["joint.dev_loss"] == "1.5000"


@pytest.mark.parametrize("block", [1, 2])
def test_output_does_not_depend_on_how_records_are_batched(
    run: Run, bundle: Path, records: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    def lines() -> Iterator[dict[str, Any]]:
        for command in (("generate", "--n-best", "2"), ("plan",), ("align",)):
            yield from parsed(run(command[0], bundle, "-i", records, *command[1:])[1])

    together = list(lines())
    monkeypatch.setattr(cli_records, "_BLOCK", block)
    for apart, expected in zip(lines(), together, strict=True):
        assert [apart.get(key) for key in ("id", "text", "plan", "rank")] == [
            expected.get(key) for key in ("id", "text", "plan", "rank")
        ]
        if "score" in expected:
            assert apart["score"] == pytest.approx(expected["score"], abs=1e-4)


# --- formats ---------------------------------------------------------------------------------------------------------


def test_csv_parquet_and_json_lines_give_the_same_texts(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    rows = ["id,subject,predicate,object"]
    rows += [f"{r['id']},{','.join(triple)}" for r in RESTAURANTS for triple in r["triples"]]
    (tmp_path / "records.CSV").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_records(tmp_path / "r.parquet", [Record.of(record) for record in RESTAURANTS], "toy", "dev")
    expected = run("generate", bundle, "-i", records)
    assert expected[0] == 0
    assert run("generate", bundle, "-i", "records.CSV") == expected
    assert run("generate", bundle, "-i", "r.parquet") == expected


def test_stdin_to_stdout_keeps_unicode_whatever_the_terminal(bundle: Path) -> None:
    record = RESTAURANTS[1] | {"id": "Zoë 日本 🍣"}
    environment = ENVIRONMENT | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*COMMAND, "plan", str(bundle), "-i", "-", "-o", "-", "-k", "1"],
        input=json.dumps(record).encode(),
        capture_output=True,
        env=environment,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["id"] == "Zoë 日本 🍣"
    assert "日本 🍣" in done.stdout.decode("utf-8")


def test_a_reader_that_takes_one_line_is_no_error(bundle: Path, tmp_path: Path) -> None:
    many = [RESTAURANTS[2] | {"id": f"{number}{'x' * 500}"} for number in range(600)]
    path = json_lines(tmp_path / "many.jsonl", many)
    with subprocess.Popen(
        [*COMMAND, "plan", str(bundle), "-i", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout and process.stderr
        assert json.loads(process.stdout.readline())["id"] == many[0]["id"]
        process.stdout.close()
        assert process.wait(timeout=120) == 1
        assert process.stderr.read() == b""


# --- bad input -------------------------------------------------------------------------------------------------------

FORTY = {"id": "forty", "triples": [["a", f"p{number}", "b"] for number in range(40)]}
TWO_PARTS = {"id": "7", "triples": [["Aromi", "food"]]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", b"", "r.jsonl is empty"),
        ("r.csv", b"", "r.csv is empty"),
        ("r.jsonl", b"\n\n", "the input holds no record"),
        ("r.csv", b"id,subject,object\n1,a,b\n", "no column predicate; it needs subject, predicate, object and has"),
        ("r.jsonl", json.dumps(TWO_PARTS).encode(), "a triple needs 3 parts (subject, predicate, object), this has 2"),
        ("r.jsonl", b'{"id": "1\0"}\n', "the line holds a NUL byte at position 10 (r.jsonl, line 1)"),
        ("r.csv", b"id,subject,predicate,object\n1,a\0,b,c\n", "the line holds a NUL byte at position 4"),
        ("r.jsonl", b"[" * 10_000_001, "the line is longer than 10,000,000 bytes (r.jsonl, line 1)"),
        ("r.jsonl", b"\xff\xfe\n", "r.jsonl, line 1: not UTF-8 (byte 0xff at position 1)"),
        ("r.jsonl", b"<xml/>\n", "not JSON at column 1"),
        ("r.parquet", b"PAR1", "r.parquet is not a Parquet file"),
        ("r.jsonl", json.dumps(FORTY).encode(), "record 'forty' has 40 triples; at most 24"),
    ],
)
@pytest.mark.parametrize("command", ["generate", "plan", "align"])
def test_input_that_cannot_be_used_is_one_line_and_exit_code_2(
    run: Run, bundle: Path, tmp_path: Path, command: str, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    code, out, err = run(command, bundle, "-i", name)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_good_records_of_a_mixed_file_are_written_and_the_others_listed(run: Run, bundle: Path, tmp_path: Path) -> None:
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


def test_when_nothing_can_be_used_the_reasons_are_listed_and_no_output_appears(
    run: Run, bundle: Path, tmp_path: Path
) -> None:
    json_lines(tmp_path / "bad.jsonl", [TWO_PARTS, FORTY])
    code, _, err = run("plan", bundle, "-i", "bad.jsonl", "-o", "out.jsonl")
    assert code == 2
    assert err.startswith("error: no record could be used: record '7': a triple needs 3 parts")
    assert len(parsed((tmp_path / "out.jsonl.rejects.jsonl").read_text())) == 2
    assert not (tmp_path / "out.jsonl").exists()


def test_rejects_of_an_earlier_run_do_not_stay_beside_a_clean_one(run: Run, bundle: Path, tmp_path: Path) -> None:
    json_lines(tmp_path / "r.jsonl", [TWO_PARTS, RESTAURANTS[0]])
    assert run("plan", bundle, "-i", "r.jsonl", "-o", "out.jsonl")[0] == 0
    assert (tmp_path / "out.jsonl.rejects.jsonl").exists()
    json_lines(tmp_path / "r.jsonl", [RESTAURANTS[0]])
    assert run("plan", bundle, "-i", "r.jsonl", "-o", "out.jsonl") == (0, "", "")
    assert not (tmp_path / "out.jsonl.rejects.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plan", "[fod] [near]"), "record '1': the record has no predicate 'fod'; did you mean food?"),
        (("--plan", "[food]"), "plan for record '1' omits near; add what is missing"),
        (("--plan", "[food near] [food]"), "column 14 of plan '[food near] [food]': 'food' occurs a second time"),
        (("--plan", "[food] [food]", "--complete"), "column 9 of plan '[food] [food]': 'food' occurs a second time"),
        (("--plan", "[fod]", "--complete"), "did you mean food?"),
        (("--plan", "[food near"), "column 1 of plan '[food near': this group is never closed"),
        (("--plan", "food near"), "column 1 of plan 'food near': expected '[', found 'f'"),
        (("--plan", "[food [near]]"), "column 7 of plan '[food [near]]': groups do not nest"),
        (("--plan", ""), "the plan is empty"),
        (("--complete",), "--complete goes with --plan"),
        (("--plan", "[food] [near]", "--level", "1"), "--level does not go with --plan"),
        (("--plan", "[food] [near]", "--ablation", "plain"), "--ablation does not go with --plan"),
        (("--level", "4"), "aggregation level 4 exceeds this model's largest group of 3 predicates"),
        (("--planner", "exakt"), "'planner' must be one of 'exact', 'two-stage', not 'exakt'"),
        (("--ablation", "x"), "'ablation' must be one of"),
    ],
)
def test_a_choice_that_does_not_fit_is_one_line_and_exit_code_2(
    run: Run, bundle: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    path = json_lines(tmp_path / "one.jsonl", RESTAURANTS[:1])
    code, out, err = run("generate", bundle, "-i", path, *options)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("option", ["--level", "--n-best", "--beam", "--plans"])
def test_a_number_below_1_is_refused_and_names_the_option(run: Run, bundle: Path, records: Path, option: str) -> None:
    code, out, err = run("generate", bundle, "-i", records, option, "0")
    assert (code, out) == (2, "")
    assert f"'{option}'" in err


def test_plan_refuses_a_level_above_the_models_as_generate_does(run: Run, bundle: Path, records: Path) -> None:
    message = "error: aggregation level 4 exceeds this model's largest group of 3 predicates\n"
    assert run("plan", bundle, "-i", records, "--level", "4") == (2, "", message)


def test_a_plan_that_fits_some_records_rejects_the_others(run: Run, bundle: Path, records: Path) -> None:
    code, out, err = run("generate", bundle, "-i", records, "--plan", "[near food]")
    assert (code, [line["id"] for line in parsed(out)]) == (0, ["1"])
    assert "4 of 5 records rejected, first: plan for record '2' omits eatType" in err
    assert "--output FILE lists all in FILE.rejects.jsonl" in err


def test_a_missing_input_is_named(run: Run, bundle: Path) -> None:
    expected = (2, "", "error: cannot read nowhere.jsonl: No such file or directory\n")
    assert run("generate", bundle, "-i", "nowhere.jsonl") == expected


@pytest.mark.parametrize("command", ["generate", "plan", "align", "inspect"])
def test_an_unknown_bundle_is_exit_code_3(run: Run, command: str) -> None:
    assert run(command, "nowhere") == (
        3,
        "",
        "error: there is no bundle at nowhere; `agggen train` writes one and prints its place\n",
    )


@pytest.mark.parametrize("name", ["weights.safetensors", "bundle.json", "vocabulary.json", "predicates.json"])
@pytest.mark.parametrize("command", ["generate", "plan", "align", "inspect"])
def test_a_bundle_with_one_flipped_byte_is_exit_code_3(
    run: Run, bundle: Path, tmp_path: Path, command: str, name: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy)
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    code, out, err = run(command, copy)
    assert (code, out) == (3, "")
    assert err.startswith(f"error: {copy / name} is not what {copy / 'manifest.json'} says")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--corpus", "elemints"), "no corpus 'elemints'; did you mean elements?"),
        (("--corpus", "elements", "--split", "tset"), "elements has no split 'tset'; it has train, dev, test"),
        (("--corpus", "toy", "--split", "test"), "the folder toy has no split 'test'; it has dev"),
        (("--corpus", "empty"), "the folder empty holds no prepared corpus"),
        (("--corpus", "webnlg"), "run `agggen corpora fetch webnlg`"),
        (("--corpus", "toy", "beem=3"), "unknown key 'beem' in override 'beem=3'; did you mean 'beam'"),
        (("--corpus", "toy", "-o", "-"), "the scores go to standard output"),
    ],
)
def test_evaluate_says_what_does_not_exist(
    run: Run,
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "toy").mkdir()
    (tmp_path / "empty").mkdir()
    write_records(tmp_path / "toy" / "dev.parquet", [Record.of(RESTAURANTS[0])], "toy", "dev")
    code, out, err = run("evaluate", bundle, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err


def test_fetch_names_the_nearest_corpus(run: Run) -> None:
    code, out, err = run("corpora", "fetch", "webnlgg")
    assert (code, out) == (2, "")
    assert err.startswith("error: no corpus 'webnlgg'; did you mean webnlg")
    assert err.count("\n") == 1


def test_broken_xml_is_named_and_exit_code_2(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "home" / "webnlg_2017" / "dev" / "1triples"
    folder.mkdir(parents=True)
    (folder / "toy.xml").write_text("<benchmark><entries><entry eid='1'>\n<oops</benchmark>", encoding="utf-8")
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path / "home"))
    code, out, err = run("corpora", "prepare", "webnlg", "--split", "dev", "--out", "prepared")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "toy.xml" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "prepared" / "dev.parquet").exists()


# --- where output goes -----------------------------------------------------------------------------------------------


def test_output_is_not_written_over_the_input(run: Run, bundle: Path, records: Path) -> None:
    before = records.read_bytes()
    code, _, err = run("generate", bundle, "-i", records, "-o", "records.jsonl")
    assert code == 2
    assert err == "error: --output records.jsonl is the input itself, which would be lost; name another file\n"
    assert records.read_bytes() == before


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (".", "error: cannot write .: it is a folder; name a file in it\n"),
        ("records.jsonl/out.jsonl", "records.jsonl is a file, no folder"),
        ("records.jsonl/deeper/out.jsonl", "is a file, no folder"),
    ],
)
def test_an_output_that_cannot_be_a_file_is_refused(
    run: Run, bundle: Path, records: Path, output: str, message: str
) -> None:
    code, out, err = run("plan", bundle, "-i", records, "-o", output)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_exit_code_5(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    code, _, err = run("plan", bundle, "-i", records, "-o", "closed/out.jsonl")
    assert (code, err) == (5, "error: cannot write: Permission denied: closed/out.jsonl\n")


def test_a_refusal_names_the_output_and_not_the_temporary_file(
    run: Run, bundle: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open

    def refuse(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "w" in mode:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", refuse)
    code, _, err = run("plan", bundle, "-i", records, "-o", "out.jsonl")
    assert (code, err) == (5, "error: cannot write: Permission denied: out.jsonl\n")


def test_a_full_disk_is_exit_code_5_and_leaves_nothing(bundle: Path, records: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", *COMMAND]  # no file may grow: like a disk without room
    done = subprocess.run(
        [*limited, "plan", str(bundle), "-i", str(records), "-o", str(folder / "out.jsonl")],
        env=ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (5, f"error: File too large: {folder / 'out.jsonl'}\n")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_standard_output_without_room_is_exit_code_5(bundle: Path, records: Path) -> None:
    with open("/dev/full", "wb") as full:  # already open: the command cannot replace it
        done = subprocess_of("plan", bundle, "-i", records, stdout=full)
    assert (done.returncode, done.stderr) == (5, b"error: No space left on device\n")


def test_a_pipe_named_as_output_is_written_to_and_not_replaced(run: Run, bundle: Path, tmp_path: Path) -> None:
    """Regression: the finished file took the place of what was there, so root's `-o /dev/null` removed the device."""
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


def test_a_link_keeps_pointing_at_what_is_written(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    assert run("plan", bundle, "-i", records, "-o", "link.jsonl")[0] == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(parsed((tmp_path / "real.jsonl").read_text(encoding="utf-8"))) == len(RESTAURANTS)


def test_an_interrupted_run_keeps_the_earlier_output(
    run: Run, bundle: Path, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.jsonl").write_text("the earlier output")
    monkeypatch.setattr(cli_records, "_BLOCK", 2)
    real, calls = Generator.generate, []

    def second_call_is_interrupted(self: Generator, *arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *arguments, **options)

    monkeypatch.setattr(Generator, "generate", second_call_is_interrupted)
    assert run("generate", bundle, "-i", records, "-o", "out.jsonl")[0] == 130
    assert (tmp_path / "out.jsonl").read_text() == "the earlier output"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "records.jsonl"]


def test_a_killed_run_leaves_nothing_under_the_outputs_name(bundle: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "plan", str(bundle), "-o", str(tmp_path / "out.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdin
        process.stdin.write(json.dumps(RESTAURANTS[0]).encode() + b"\n")
        process.stdin.flush()
        patience = time.monotonic() + 60
        while not list(tmp_path.glob("out.jsonl.*.tmp")):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < patience, "the command never began to write"
            time.sleep(0.05)
        process.kill()
    assert not (tmp_path / "out.jsonl").exists()


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("generate", """      echo '{"triples": [["Aromi", "food", "English"]]}' | agggen generate BUNDLE"""),
        ("generate", "      agggen generate BUNDLE -i records.jsonl --plan '[food near] [area]'"),
        ("plan", "      agggen plan BUNDLE -i records.jsonl -k 3"),
        ("align", "      agggen align BUNDLE -i records.jsonl"),
        ("train", "      agggen train webnlg-quick training.seed=2 model.predicate_dim=64"),
        ("evaluate", "      agggen evaluate BUNDLE --corpus webnlg --split dev"),
    ],
)
def test_help_keeps_examples_as_they_are_typed(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, example: str
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = run(command, "--help")
    assert code == 0
    assert example in out.splitlines()
