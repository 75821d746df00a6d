"""The output of `generate`, `plan`, `align`, `inspect` and `adjust`, from several formats."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from agggen.bundle import fingerprint, load_bundle, save_bundle
from agggen.config import overrides_of
from agggen.corpora.prepared import write_records
from agggen.records import Plan, Record
from agggen.run import FactsConfig
from agggen.verification.lexicon import Lexicon
from agggen_platform.cli import records as cli_records
from tests.command import Run, check_refused
from tests.unit.cli_write.examples import COMMAND, ENVIRONMENT, RESTAURANTS, json_lines, parsed


def test_generate_writes_a_line_for_each_record_in_order(run: Run, bundle: Path, records: Path) -> None:
    code, out, err = run("generate", bundle, "-i", records)
    assert (code, err) == (0, "")
    assert out == run("generate", bundle, "-i", records, "verify=strict")[1], "the default"
    free = run("generate", bundle, "-i", records, "verify=off")
    assert (free[0], free[2]) == (0, "")
    assert not any(line["fulfilled"] for line in parsed(free[1])), "random weights must give texts with faults"
    lines = parsed(out)
    assert [line["id"] for line in lines] == ["1", "2", "3", "4", "5"]
    assert all(line["fulfilled"] and "rank" not in line for line in lines)


def test_options_change_plans_and_the_number_of_texts(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    lines = parsed(run("generate", bundle, "-i", records, "--n-best", "3", "level=1")[1])
    assert all(len(state) == 1 for line in lines for state in Plan.parse(line["plan"]).states)
    for record in RESTAURANTS:
        ranked = [line for line in lines if line["id"] == record["id"]]
        assert [line["rank"] for line in ranked] == list(range(1, len(ranked) + 1))
        assert [line["score"] for line in ranked] == sorted((line["score"] for line in ranked), reverse=True)
    for line in parsed(run("plan", bundle, "-i", records, "-k", "4")[1]):
        assert 1 <= len({plan["plan"] for plan in line["plans"]}) == len(line["plans"]) <= 4
    fourth = json_lines(tmp_path / "fourth.jsonl", RESTAURANTS[3:4])
    (line,) = parsed(run("generate", bundle, "-i", fourth, "--plan", "[area] [near food eatType]")[1])
    assert line["plan"] == "[area] [near food eatType]"
    (line,) = parsed(run("generate", bundle, "-i", fourth, "--plan", "[near area]", "--complete")[1])
    assert line["plan"].startswith("[near area]") and len(Plan.parse(line["plan"]).predicates) == 4


@pytest.mark.parametrize("command", ["generate", "plan"])
def test_unknown_predicates_are_listed_once(run: Run, bundle: Path, tmp_path: Path, command: str) -> None:
    strange = [["Mill", "owner", "Oda"], ["Mill", "built", "1871"]]
    inputs = [RESTAURANTS[2]["triples"] + strange[:count] for count in (0, 1, 2)]
    path = json_lines(tmp_path / "r.jsonl", [{"triples": triples} for triples in inputs])
    code, out, err = run(command, bundle, "-i", path)
    assert (code, len(parsed(out))) == (0, 3)
    assert err == "Predicates that are not in the training data, with their number of records: owner (2), built (1)\n"


def test_align_returns_the_predicates_of_each_fact(run: Run, bundle: Path, tmp_path: Path) -> None:
    text = {"text": "Aromi is English, near Crown Hall.", "facts": ["Aromi is English, ", "near Crown Hall."]}
    record = RESTAURANTS[0] | {"references": [text, "Near Crown Hall."]}
    without_text = {key: value for key, value in RESTAURANTS[1].items() if key != "references"}
    code, out, err = run("align", bundle, "-i", json_lines(tmp_path / "r.jsonl", [record, without_text]))
    first, second = parsed(out)
    assert (code, "1 of 2 records rejected, first: record '2' has no reference text to align" in err) == (0, True)
    assert [(line["id"], line["reference"]) for line in (first, second)] == [("1", 0), ("1", 1)]
    assert [fact["text"] for fact in first["facts"]] == text["facts"]
    assert "".join(fact["text"] for fact in second["facts"]) == "Near Crown Hall."
    for fact in first["facts"]:
        assert set(fact["predicates"]) <= {"food", "near"}
        assert 0 < fact["posterior"] <= 1


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("sentences", ["Aromi serves English food and is loved by Crown Hall."]),
        ("corpus", ["Aromi serves English food ", "and is loved by Crown Hall."]),  # by the shipped tagger
    ],
)
def test_segmentation_of_new_texts(run: Run, bundle: Path, source: Any, facts: list[str]) -> None:
    config = FactsConfig(source=source)
    other = replace(load_bundle(bundle), facts=config.source, segmenter=config.for_new_texts)
    save_bundle("other", other)
    path = json_lines(Path("r.jsonl"), [RESTAURANTS[0] | {"references": ["".join(facts)]}])
    code, out, _ = run("align", "other", "-i", path)
    (line,) = parsed(out)
    assert (code, [fact["text"] for fact in line["facts"]]) == (0, facts)
    shown = dict(row.split("\t") for row in run("inspect", "other")[1].splitlines())
    assert (shown["facts"], shown["new texts are segmented by"]) == (config.source, config.for_new_texts.source)


def test_inspect_describes_a_bundle(run: Run, bundle: Path) -> None:
    lexicon = Lexicon({"UK": ("Britain", "British")}, {"open": {"yes": ("open",)}}, templates={"food": "{subject}"})
    save_bundle("taught", replace(load_bundle(bundle), lexicon=lexicon))
    code, out, err = run("inspect", "taught")
    table = dict(line.split("\t") for line in out.splitlines())
    assert (code, err) == (0, "")
    assert len(table["fingerprint"]) == 64
    assert (table["predicates"], table["model.max_group_size"], table["source toy/train"]) == ("4", "3", "ab12")
    assert table["joint.dev_loss"] == "1.5000"
    assert table["predicate names"] == "area, eatType, food, near"
    assert (table["wordings of values"], table["truth values of"], table["templates"]) == ("2 of 1 values", "open", "1")


def test_an_adjusted_bundle_has_the_same_weights_and_other_settings(run: Run, bundle: Path) -> None:
    code, out, err = run("adjust", bundle, "level=2", "beam.beam=1", "-o", "made/adjusted")
    assert (code, out, err) == (0, "made/adjusted\n", "")
    old, new = load_bundle(bundle), load_bundle("made/adjusted")
    assert new.inference == replace(old.inference, level=2, beam=replace(old.inference.beam, beam=1))
    assert new.sources == {**old.sources, "adjusted bundle": fingerprint(bundle)}
    for name in ("weights.safetensors", "vocabulary.json", "predicates.json"):
        assert Path("made/adjusted", name).read_bytes() == (bundle / name).read_bytes()
    assert run("adjust", "made/adjusted", *overrides_of(old.inference), "-o", "made/back")[0] == 0
    assert load_bundle("made/back").inference == old.inference


def test_user_defined_paraphrases_of_values_are_added_to_the_lexicon(run: Run, bundle: Path) -> None:
    Path("own.json").write_text(json.dumps({"Polish": ["from Poland", "Silesian"], "city": ["downtown"]}), "utf-8")
    assert run("adjust", bundle, "--wordings", "own.json", "-o", "new") == (0, "new\n", "")
    old = load_bundle(bundle).lexicon.variants
    wordings = {**old, "Polish": ("from Poland", "Silesian"), "city": ("downtown",)}
    assert load_bundle("new").lexicon.variants == wordings
    Path("more.json").write_text(json.dumps({"city": ["downtown", "in town"]}), "utf-8")
    assert run("adjust", "new", "level=1", "--wordings", "more.json", "-o", "newer")[0] == 0
    assert load_bundle("newer").lexicon.variants == wordings | {"city": ("downtown", "in town")}
    assert load_bundle("newer").inference.level == 1


def test_unknown_predicates_are_expressed_by_user_defined_sentences(run: Run, bundle: Path) -> None:
    Path("own.tsv").write_text("owner\t{object} owns {subject}", "utf-8")
    assert run("adjust", bundle, "--phrases", "own.tsv", "-o", "new") == (0, "new\n", "")
    json_lines(Path("r.jsonl"), [{"id": "1", "triples": [["Mill", "owner", "Ann"], ["Mill", "builder", "Bob"]]}])
    (line,) = parsed(run("generate", "new", "-i", "r.jsonl")[1])
    assert sorted(line["text"].rstrip(".").split(". ")) == ["Ann owns Mill", "Mill was built by Bob"]
    assert line["fulfilled"] and line["unknown_predicates"] == ["owner", "builder"]


@pytest.mark.parametrize(
    ("options", "output", "code", "message"),
    [
        ((), "new", 2, "nothing to adjust; give settings (level=2), --wordings FILE or --phrases FILE"),
        (("plan_weigth=1",), "new", 2, "did you mean 'plan_weight'"),
        (("level=4",), "new", 2, "level 4 exceeds this model's largest group of 3"),
        (("plans=0",), "new", 2, "plans must be at least 1"),
        (("plans=2",), "there", 3, "there exists already; a bundle is never overwritten"),
        (("--phrases", "nowhere.tsv"), "new", 2, "cannot read nowhere.tsv"),
        (("--phrases", "webnlg-3.0"), "new", 2, "agggen corpora fetch webnlg-3.0"),  # not a file
    ],
)
def test_invalid_adjustments(
    run: Run, bundle: Path, monkeypatch: pytest.MonkeyPatch, options: Any, output: str, code: int, message: str
) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", "empty")
    Path("there").mkdir()
    check_refused(run("adjust", bundle, *options, "-o", output), code, message)
    assert not Path("new").exists() and not list(Path("there").iterdir())


def test_output_does_not_depend_on_batches(run: Run, bundle: Path, records: Path) -> None:
    for command in ("generate", "plan", "align"):
        together = parsed(run(command, bundle, "-i", records)[1])
        with patch.object(cli_records, "_BATCH_RECORDS", 2):
            batched = parsed(run(command, bundle, "-i", records)[1])
        for line, expected in zip(batched, together, strict=True):
            for key in ("id", "text", "plan"):
                assert line.get(key) == expected.get(key)
            assert line.get("score", 0) == pytest.approx(expected.get("score", 0), abs=1e-4)


def test_csv_parquet_and_json_lines_have_the_same_texts(run: Run, bundle: Path, records: Path, tmp_path: Path) -> None:
    rows = ["id,subject,predicate,object"]
    rows += [f"{r['id']},{','.join(triple)}" for r in RESTAURANTS for triple in r["triples"]]
    (tmp_path / "records.CSV").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_records(tmp_path / "r.parquet", [Record.of(record) for record in RESTAURANTS], "toy", "dev")
    expected = run("generate", bundle, "-i", records)
    assert expected[0] == 0
    assert run("generate", bundle, "-i", "records.CSV") == expected
    assert run("generate", bundle, "-i", "r.parquet") == expected


def test_all_records_of_a_pipe_are_read(run: Run, bundle: Path, records: Path) -> None:
    """Regression: guessing the format consumed the start of a pipe, so that 46 records were lost."""
    readable, writable = os.pipe()
    os.write(writable, records.read_bytes())
    os.close(writable)
    try:
        assert run("plan", bundle, "-i", f"/dev/fd/{readable}") == run("plan", bundle, "-i", records)
    finally:
        os.close(readable)


def test_stdin_and_stdout_are_utf8_in_any_terminal(bundle: Path) -> None:
    record = RESTAURANTS[1] | {"id": "Zoë 日本 🍣"}
    environment = ENVIRONMENT | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*COMMAND, "plan", str(bundle), "-i", "-", "-o", "-", "-k", "1"],
        input=json.dumps(record).encode() + b'\n{"name": "Mill", "area": "riverside"}',
        capture_output=True,
        env=environment,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    first, row = map(json.loads, done.stdout.splitlines())
    assert first["id"] == "Zoë 日本 🍣"
    assert row["plans"][0]["plan"] == "[area]", "rows with a key per predicate are records, too"
    assert "日本 🍣" in done.stdout.decode("utf-8")


def test_a_closed_output_pipe_prints_no_error(bundle: Path, tmp_path: Path) -> None:
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
