"""`agggen check`: files in several forms, lines and pages out, and scores beside people's ratings."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Run

GOOD, BAD = "Silicon is in period 3 and group 14.", "Silicon <b>is</b> in period 3, found by Marie Curie."
TRIPLES = [["Silicon", "period", "3"], ["Silicon", "group", "14"]]


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_texts_are_read_from_lines_objects_and_records(run: Run, tmp_path: Path) -> None:
    records = write(tmp_path / "records.jsonl", *({"id": name, "triples": TRIPLES} for name in "ab"))
    texts = {"a": GOOD, "b": BAD}
    both = [{"id": name, "triples": TRIPLES, "text": text, "x": 1} for name, text in texts.items()]
    references = [{"id": name, "triples": TRIPLES, "references": [text]} for name, text in texts.items()]
    sources = [
        (records, write(tmp_path / "texts.txt", GOOD, BAD)),
        (records, write(tmp_path / "texts.jsonl", {"id": "b", "text": BAD}, {"id": "a", "text": GOOD})),
        (write(tmp_path / "both.jsonl", *both),),
        (write(tmp_path / "references.jsonl", *references),),
    ]
    outputs = []
    for number, source in enumerate(sources):
        code, out, err = run("check", *source, "--json", tmp_path / f"{number}.jsonl")
        assert code == 0, err
        outputs.append((tmp_path / f"{number}.jsonl").read_text())
        assert out.splitlines()[1].startswith("b\t")  # the riskiest first
        assert "2 texts: by words 1 say every value whole, 1 have no fault" in err
    assert len(set(outputs)) == 1
    good, bad = map(json.loads, outputs[0].splitlines())
    assert set(good) == {"id", "text", "values", "scores", "risk", "triples", "invented", "faults"}
    assert good["scores"].keys() == {"coverage", "correctness", "fluency"}
    assert all(0 <= value <= 1 for line in (good, bad) for value in (*line["scores"].values(), line["risk"]))
    assert [(row["predicate"], row["words"]) for row in bad["triples"]] == [("period", "literal"), ("group", "missing")]
    assert bad["risk"] > good["risk"]


def test_a_table_names_its_columns(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "outputs.csv", "name,period,group,output", f'Silicon,3,14,"{GOOD}"')
    code, out, err = run("check", path, "--text", "output", "--json", "-")
    assert code == 0, err
    assert json.loads(out)["text"] == GOOD


def test_a_text_with_line_breaks_and_tabs_is_one_row_of_the_table(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "lines.jsonl", {"triples": TRIPLES, "text": "Silicon is in\nperiod 3\tand group 14."})
    header, *rows = run("check", path)[1].splitlines()
    assert [len(row.split("\t")) for row in rows] == [len(header.split("\t"))]


def test_a_page_escapes_texts_and_has_the_riskiest_first(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "both.jsonl", *({"triples": TRIPLES, "text": text} for text in (GOOD, BAD)))
    assert run("check", path, "--report", tmp_path / "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "&lt;" in page and "<b>is" not in page
    assert page.index("Marie") < page.index("group 14.")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"triples": TRIPLES, "text": "A."}, {"triples": TRIPLES}], "line 2: has no triples or no text"),
        ([{"triples": [], "text": "A."}], "line 1: record '1' has no triples"),
        ([{"id": "a", "triples": TRIPLES}], "record 'a': there is no text to check"),
        (["{"], "line 1: not JSON"),
        ([{"triples": TRIPLES, "text": None}], "line 1: the text must be a string, not None"),
    ],
)
def test_a_file_with_an_invalid_line_is_refused(run: Run, tmp_path: Path, lines: list[object], message: str) -> None:
    code, _out, err = run("check", write(tmp_path / "in.jsonl", *lines), "--json", tmp_path / "out.jsonl")
    assert code == 2
    assert message in err
    assert not (tmp_path / "out.jsonl").exists()


def test_scores_are_compared_with_ratings(run: Run, tmp_path: Path) -> None:
    rows = [
        {"triples": TRIPLES, "text": text, "system": system, "DataCoverage": rating, "Correctness": rating}
        for text, system, rating in ((GOOD, "x", 99), (BAD, "y", 40), ("Carbon is a metal.", "y", 5))
    ]
    code, out, err = run("check", write(tmp_path / "ratings.jsonl", *rows), "--meta-evaluate")
    assert code == 0, err
    table = [line.split("\t") for line in out.splitlines()]
    assert table[0][:3] == ["score", "DataCoverage", "Correctness"]
    scores = {row[0]: row[1] for row in table[1:]}
    assert float(scores["values whole (strict)"]) > 0.9
    assert "chrF++" not in scores
    with_references = write(tmp_path / "references.jsonl", *(row | {"references": [GOOD]} for row in rows))
    code, out, _ = run("check", with_references, "--meta-evaluate")
    rated = {row[0]: row[1] for row in (line.split("\t") for line in out.splitlines())}
    assert code == 0 and all(float(rated[name]) > 0.9 for name in ("sentence BLEU", "chrF++"))
    bad = write(tmp_path / "bad.jsonl", rows[0] | {"references": "A."})
    assert "line 1: references must be a list of texts" in run("check", bad, "--meta-evaluate")[2]
    assert "no fault by words: 33.3% of the texts pass; people call 0.0% of these incorrect" in err
    partly_rated = write(
        tmp_path / "partly.jsonl", rows[0], {"triples": TRIPLES, "text": GOOD, "system": "x", "Fluency": 9}
    )
    code, _, err = run("check", partly_rated, "--meta-evaluate")
    assert (code, "of the texts pass" in err) == (0, False)
    unrated = write(tmp_path / "unrated.jsonl", {"triples": TRIPLES, "text": "A."})
    code, _, err = run("check", unrated, "--meta-evaluate")
    assert (code, "line 1: needs text, system and a rating" in err) == (2, True)


def test_a_critic_is_trained_and_used(run: Run, tmp_path: Path) -> None:
    code, out, err = run("train-critic", "--corpora", "elements", "--steps", "2", "--out", str(tmp_path / "critic"))
    assert code == 0, err
    assert out.splitlines()[-1] == str(tmp_path / "critic")
    path = write(tmp_path / "both.jsonl", {"triples": TRIPLES, "text": GOOD})
    assert run("check", path, "--critic", tmp_path / "critic")[0] == 0
    assert run("check", path, "--critic", tmp_path / "absent")[0] == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("arguments", "name"), [(("--report", "/dev/full"), "/dev/full"), ((), "standard output")])
def test_a_full_disk_is_an_error_that_names_the_output(arguments: tuple[str, ...], name: str, tmp_path: Path) -> None:
    texts = write(tmp_path / "texts.jsonl", {"triples": TRIPLES, "text": GOOD})
    command = [sys.executable, "-m", "agggen_platform.cli.main", "check", str(texts), *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=None if arguments else full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (5, f"error: No space left on device: {name}")
