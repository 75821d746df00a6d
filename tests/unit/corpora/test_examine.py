"""Statistics of data, and warnings about likely errors."""

from agggen import load_dataset
from agggen.corpora.examine import examine


def row(number: int, text: str, **changes: object) -> dict[str, object]:
    return {"id": number, "title": f"Film {number}", "director": "Scott", "text": text, "split": "train"} | changes


def test_likely_errors_are_reported_with_examples() -> None:
    rows = [row(number, f"Film {number} is by Scott.") for number in range(25)]
    rows += [
        row(30, "Film 30 is nice."),  # lacks the director
        row(31, "Film 31 is by Scott and was shot in Malta in 1977."),
        row(32, "Film 32 is by Scott, a story of love.", genre="love"),
        row(33, ""),
        row(0, "Film 0 is by Scott.", split="dev"),
        row(40, "Film 40 is by Scott, for sale.", split="test", price="sale"),
        row(41, "A.", director=b"x"),
    ]
    result = examine(load_dataset(rows))
    uses = {name: (use.n_texts, len(use.missing)) for name, use in result.predicates.items()}
    assert uses == {"director": (28, 1), "genre": (1, 0)}
    by_problem = {finding.problem: finding for finding in result.findings}
    assert "record '41': a cell has the type bytes" in str(by_problem["rows that could not be read"])
    assert by_problem["records without a text"].examples == ("33",)
    assert by_problem["values without a word in a text"].examples == ("director 'Scott' (record 30)",)
    hallucinated = by_problem["numbers and names in texts that the record lacks"]
    assert {example.partition(" ")[0] for example in hallucinated.examples} >= {"'Malta'", "'1977'"}
    assert by_problem["predicates with fewer than 20 training texts"].examples == ("genre (1)",)
    assert by_problem["predicates that are not in training"].examples == ("price",)
    assert by_problem["records with the same triples in several splits"].examples == ("train 0, dev 0",)
    assert by_problem["texts in several splits"].count == 1


def test_clean_data_have_no_findings() -> None:
    rows = [row(number, f"Film {number} is by Scott.") for number in range(25)]
    assert examine(load_dataset({"train": rows[:20], "dev": rows[20:]})).findings == ()
