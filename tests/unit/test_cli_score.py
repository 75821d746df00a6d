"""The command `agggen score`."""

import json
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen.evaluation.values import VALUE_METRICS, check_values
from agggen.records import Record
from tests.command import Run, check_refused, check_succeeds
from tests.unit.cli_write.examples import json_lines
from tests.unit.score_files import corpus_scores, score_texts

RECORDS = [
    {"id": "1", "triples": [["Mill", "food", "Thai"]], "references": ["Mill serves Thai food.", "Mill is Thai."]},
    {"id": "2", "triples": [["Mill", "area", "riverside"]], "references": ["Mill is by the riverside."]},
]
SCORE = ("score", "--records", "records.jsonl", "--hypotheses", "texts.txt")


@pytest.fixture
def system(run: Run) -> Run:
    """The command in a folder with records and texts of a system."""
    json_lines(Path("records.jsonl"), RECORDS)
    Path("texts.txt").write_text("Mill serves Thai food.\nMill is by the river side.\n", encoding="utf-8")
    return run


def test_texts_are_scored_and_written(system: Run) -> None:
    code, out, err = system(*SCORE, "--json", "out.json")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["score", "value", "signature"]
    assert [row[0] for row in rows[1:]] == ["bleu", "chrf", "ter", *VALUE_METRICS]
    texts = Path("texts.txt").read_text().splitlines()
    scores = score_texts("plain", texts, [item["references"] for item in RECORDS])
    scores |= corpus_scores(check_values([Record.of(record) for record in RECORDS], texts).statistics)
    written = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert written == {name: {"score": score.value, "signature": score.signature} for name, score in scores.items()}
    assert rows[1][1:] == [f"{scores['bleu'].value:.4f}", scores["bleu"].signature]


def test_an_empty_line_is_a_text_and_is_reported(system: Run) -> None:
    Path("texts.txt").write_text("\nMill is by the riverside.\n", encoding="utf-8")
    code, out, err = system(*SCORE, "--metrics", "ter")
    assert (code, err) == (0, "texts.txt: 1 of 2 texts are empty (first: text 1); they are scored, too\n")
    assert float(out.splitlines()[1].split("\t")[1]) > 0


def test_intervals_and_another_system(system: Run) -> None:
    Path("other.txt").write_text("Mill serves Thai food.\nMill is by the riverside.\n", encoding="utf-8")
    arguments = ("--confidence", "--against", "other.txt", "--metrics", "bleu,ter", "--json", "out.json")
    out, _ = check_succeeds(system(*SCORE, *arguments))
    rows = [line.split("\t") for line in out.splitlines()]
    compared = ["against", "difference", "difference low", "difference high", "p"]
    assert rows[0] == ["score", "value", "low", "high", *compared, "signature", "test"]
    assert len({len(row) for row in rows}) == 1
    bleu = json.loads(Path("out.json").read_text(encoding="utf-8"))["bleu"]
    against = bleu["against"]
    assert bleu["low"] <= bleu["score"] <= bleu["high"] and "bootstrap" in bleu["signature"]
    assert (against["score"], against["difference"]) == pytest.approx((100, bleu["score"] - 100))
    assert 0 < against["p_value"] <= 1 and "paired" in against["signature"]


def test_what_the_other_commands_write_can_be_scored(system: Run) -> None:
    write_records(Path("records.parquet"), [Record.of(record) for record in RECORDS], "mine", "test")
    first, second = "It is Thai.", "It is by the riverside."
    json_lines(Path("texts.jsonl"), [{"id": "2", "text": second, "rank": 1}, {"id": "1", "text": first}])
    Path("texts.txt").write_text(f"{first}\n{second}", encoding="utf-8")
    from_lines, _ = check_succeeds(system(*SCORE))
    arguments = ("score", "--records", "records.parquet", "--hypotheses", "texts.jsonl")
    assert system(*arguments) == (0, from_lines, "")


@pytest.mark.parametrize("option", ["--hypotheses", "--against"])
def test_invalid_texts_are_exit_code_2_and_do_not_change_the_output(system: Run, option: str) -> None:
    Path("good.txt").write_text("one\ntwo\n", encoding="utf-8")
    Path("texts.txt").write_text("one\n", encoding="utf-8")
    Path("out.json").write_text("{}", encoding="utf-8")
    arguments = ["--hypotheses", "good.txt", option, "texts.txt"]  # of two --hypotheses the last one is used
    result = system("score", "--records", "records.jsonl", *arguments, "--json", "out.json")
    check_refused(result, 2, "texts.txt ends after line 1, but records.jsonl has 2 records")
    assert Path("out.json").read_text(encoding="utf-8") == "{}"
    assert not list(Path().glob("*.tmp"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.csv", "id,subject,predicate,object\n1,Mill,food,Thai\n", "r.csv, record '1': no reference text"),
        ("r.jsonl", "\n\n", "r.jsonl contains no records"),
        ("r.jsonl", f"{json.dumps(RECORDS[0])}\n{{bad\n", "r.jsonl:2: not JSON at column 2"),
    ],
)
def test_every_record_must_be_valid(system: Run, name: str, content: str, message: str) -> None:
    Path(name).write_text(content, encoding="utf-8")
    check_refused(system("score", "--records", name, "--hypotheses", "texts.txt"), 2, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--protocol", "wmt"), "unknown protocol 'wmt'"),
        (("--metrics", "bleu,bleurt"), "no metric 'bleurt'"),
        (("--metrics", "ser"), "protocol plain has no metric 'ser'"),
        (("--metrics", ","), "no metric is requested"),
        (("--json", "none/out.json"), "no folder none"),
        (("--json", "out.json"), "cannot read missing.txt"),
        (("--against", "missing.txt", "--json", "missing.txt"), "would overwrite an input"),
    ],
)
def test_options_are_checked_before_anything_is_read(system: Run, arguments: tuple[str, ...], message: str) -> None:
    check_refused(system("score", "--records", "records.jsonl", "--hypotheses", "missing.txt", *arguments), 2, message)
