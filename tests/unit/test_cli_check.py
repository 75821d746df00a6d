"""`agggen check`: input formats, lines and HTML pages as output, comparison with human ratings."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.command import Run, check_succeeds
from tests.unit.cli_write.examples import COMMAND, json_lines, parsed

GOOD, BAD = "Silicon is in period 3 and group 14.", "Silicon <b>is</b> in period 3, found by Marie Curie."
TRIPLES = [["Silicon", "period", "3"], ["Silicon", "group", "14"]]


def test_texts_are_read_from_lines_objects_and_records(run: Run) -> None:
    texts = {"a": GOOD, "b": BAD}
    items = [{"id": name, "triples": TRIPLES} for name in texts]
    records = json_lines(Path("records.jsonl"), items)
    lines = Path("texts.txt")
    lines.write_text(f"{GOOD}\n{BAD}\n")
    objects = json_lines(Path("texts.jsonl"), [{"id": name, "text": texts[name]} for name in "ba"])
    both = json_lines(Path("both.jsonl"), [item | {"text": texts[item["id"]], "x": 1} for item in items])
    references = [item | {"references": [texts[item["id"]]]} for item in items]
    sources = [(records, lines), (records, objects), (both,), (json_lines(Path("references.jsonl"), references),)]
    outputs = []
    for source in sources:
        out, err = check_succeeds(run("check", *source, "--json", "out.jsonl"))
        outputs.append(Path("out.jsonl").read_text())
        assert out.splitlines()[1].startswith("b\t")  # riskiest first
        assert "2 texts; strict check: 1 state every value in full, 1 have no fault" in err
    assert len(set(outputs)) == 1
    good, bad = parsed(outputs[0])
    assert set(good) == {"id", "text", "values", "scores", "risk", "triples", "invented", "faults"}
    assert good["scores"].keys() == {"coverage", "correctness", "fluency"}
    assert all(0 <= value <= 1 for line in (good, bad) for value in (*line["scores"].values(), line["risk"]))
    assert [(row["predicate"], row["words"]) for row in bad["triples"]] == [("period", "literal"), ("group", "missing")]
    assert bad["risk"] > good["risk"]


def test_a_table_names_its_columns(run: Run) -> None:
    Path("outputs.csv").write_text(f'name,period,group,output\nSilicon,3,14,"{GOOD}"\n')
    out, _ = check_succeeds(run("check", "outputs.csv", "--text", "output", "--json", "-"))
    assert json.loads(out)["text"] == GOOD


def test_a_page_escapes_texts_and_has_the_riskiest_first(run: Run) -> None:
    texts = (GOOD.replace(" and", "\tand\n"), BAD)
    path = json_lines(Path("both.jsonl"), [{"triples": TRIPLES, "text": text} for text in texts])
    code, out, _ = run("check", path, "--report", "page.html")
    header, *rows = out.splitlines()
    assert [code, *(row.count("\t") for row in rows)] == [0, *[header.count("\t")] * 2]
    page = Path("page.html").read_text()
    assert "&lt;" in page and "<b>is" not in page
    assert page.index("Marie") < page.index("group 14.")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"triples": TRIPLES, "text": "A."}, {"triples": TRIPLES}], "line 2: needs triples and text"),
        ([{"triples": [], "text": "A."}], "line 1: record '1' has no triples"),
        ([{"id": "a", "triples": TRIPLES}], "record 'a': no text to check"),
        (["{"], "line 1: must be a JSON object"),
        ([{"triples": TRIPLES, "text": None}], "line 1: the text must be a string, not None"),
    ],
)
def test_a_file_with_an_invalid_line_is_refused(run: Run, lines: list[object], message: str) -> None:
    code, _, err = run("check", json_lines(Path("in.jsonl"), lines), "--json", "out.jsonl")
    assert (code, message in err, Path("out.jsonl").exists()) == (2, True, False), err


def test_scores_are_compared_with_ratings(run: Run) -> None:
    def meta_evaluated(*lines: dict[str, object]) -> tuple[object, dict[str, list[str]], str]:
        """Exit code, rows of the printed table by first cell, and stderr."""
        code, out, err = run("check", json_lines(Path("ratings.jsonl"), list(lines)), "--meta-evaluate")
        return code, {row[0]: row[1:] for row in (line.split("\t") for line in out.splitlines())}, err

    rows: list[dict[str, object]] = [
        {"triples": TRIPLES, "text": text, "system": system, "DataCoverage": rating, "Correctness": rating}
        for text, system, rating in ((GOOD, "x", 99), (BAD, "y", 40), ("Carbon is a metal.", "y", 5))
    ]
    code, scores, err = meta_evaluated(*rows)
    assert code == 0, err
    assert scores["score"][:2] == ["DataCoverage", "Correctness"]
    assert float(scores["values whole (strict)"][0]) > 0.9 and "chrF++" not in scores
    assert "no fault (strict check): 33.3% of the texts pass; people call 0.0% of these incorrect" in err
    code, scores, _ = meta_evaluated(*(row | {"references": [GOOD]} for row in rows))
    assert code == 0 and all(float(scores[name][0]) > 0.9 for name in ("sentence BLEU", "chrF++"))
    code, _, err = meta_evaluated(rows[0], {"triples": TRIPLES, "text": GOOD, "system": "x", "Fluency": 9})
    assert (code, "of the texts pass" in err) == (0, False)
    for line, message in (
        (rows[0] | {"references": "A."}, "line 1: references must be a list of texts"),
        ({"triples": TRIPLES, "text": "A."}, "line 1: needs text, system and a rating"),
    ):
        code, _, err = meta_evaluated(line)
        assert (code, message in err) == (2, True), err


def test_a_critic_is_trained_and_used(run: Run) -> None:
    out, _ = check_succeeds(run("train-critic", "--corpora", "elements", "--steps", "2", "--out", "critic"))
    assert out.splitlines()[-1] == "critic"
    path = json_lines(Path("both.jsonl"), [{"triples": TRIPLES, "text": GOOD}])
    assert [run("check", path, "--critic", critic)[0] for critic in ("critic", "absent")] == [0, 3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("arguments", "name"), [(("--report", "/dev/full"), "/dev/full"), ((), "standard output")])
def test_a_full_disk_is_an_error_that_names_the_output(arguments: tuple[str, ...], name: str, tmp_path: Path) -> None:
    texts = json_lines(tmp_path / "texts.jsonl", [{"triples": TRIPLES, "text": GOOD}])
    command = [*COMMAND, "check", str(texts), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        stdout = None if arguments else full
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (5, f"error: No space left on device: {name}")
