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
    by_problem = dict(finding.split(": ", 1) for finding in result.findings)
    assert "record '41': a cell has the type bytes" in by_problem["rows that could not be read"]
    hallucinated = by_problem["numbers and names in texts that the record lacks"]
    assert "'Malta'" in hallucinated and "'1977'" in hallucinated
    expected = {
        "records without a text": "1, such as 33",
        "values without a word in a text": "1, such as director 'Scott' (record 30)",
        "predicates with fewer than 20 training texts": "1, such as genre (1)",
        "predicates that are not in training": "1, such as price",
        "records with the same triples in several splits": "1, such as train 0, dev 0",
        "texts in several splits": "1, such as train 0, dev 0",
    }
    assert by_problem.items() >= expected.items()


def test_clean_data_have_no_findings() -> None:
    rows = [row(number, f"Film {number} is by Scott.") for number in range(25)]
    assert examine(load_dataset({"train": rows[:20], "dev": rows[20:]})).findings == []
