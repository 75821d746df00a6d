"""WebNLG XML: triples, texts, human plans of 1.6, invalid entries."""

from pathlib import Path

import pytest

from agggen.corpora.rejects import Reject, split_rejects
from agggen.corpora.webnlg import read_webnlg
from agggen.records import Plan, Record


def entry(triples: list[str], lexes: str, eid: str = "Id1") -> str:
    inner = "".join(f"<mtriple>{triple}</mtriple>" for triple in triples)
    return (
        f'<entry category="City" eid="{eid}" size="{len(triples)}">\n'
        f"<originaltripleset><otriple>x | y | z</otriple></originaltripleset>\n"
        f"<modifiedtripleset>{inner}</modifiedtripleset>\n{lexes}\n</entry>\n"
    )


def read(tmp_path: Path, *entries: str) -> tuple[list[Record], list[Reject]]:
    path = tmp_path / "City.xml"
    path.write_text(f"<benchmark>\n<entries>\n{''.join(entries)}</entries>\n</benchmark>\n", encoding="utf-8")
    return split_rejects(read_webnlg(path, "train"))


def test_an_entry_is_a_record_with_raw_triples(tmp_path: Path) -> None:
    texts = '<lex lid="Id1"> It is old. </lex><lex lid="Id2">Old.</lex>'
    (record,), rejects = read(tmp_path, entry(['Old_Town | part of | "Upper &amp; Lower"'], texts))
    assert (record.as_dict(), rejects) == (
        {
            "id": "webnlg-train-1-City-Id1",
            "triples": [["Old_Town", "part of", '"Upper & Lower"']],
            "references": ["It is old.", "Old."],
            "category": "City",
        },
        [],
    )


def enriched(*sentences: list[str]) -> str:
    inner = "".join(f"<sentence>{''.join(f'<striple>{t}</striple>' for t in s)}</sentence>" for s in sentences)
    return f'<lex lid="Id1"><sortedtripleset>{inner}</sortedtripleset><text>A text.</text></lex>'


A, B, C = "T | isPartOf | A", "T | isPartOf | B", "T | area | 5"


@pytest.mark.parametrize(
    ("sentences", "plan"),
    [
        (([C, A], [B]), "[area isPartOf] [isPartOf_2]"),
        # Only the object distinguishes the repeated predicates.
        (([B], [A, C]), "[isPartOf_2] [isPartOf area]"),
        (([], ["T  | isPartOf | B", A, C]), "[isPartOf_2 isPartOf area]"),
        (([A, B],), None),
        (([A, B, C, C],), None),
        (([A, B, "T | area | 6"],), None),
        ((), None),
    ],
)
def test_sentences_become_the_groups_of_a_complete_plan(
    tmp_path: Path, sentences: tuple[list[str], ...], plan: str | None
) -> None:
    records, _ = read(tmp_path, entry([A, B, C], enriched(*sentences)))
    assert records[0].references[0].plan == (plan and Plan.parse(plan))


def test_an_invalid_entry_is_rejected_with_its_line(tmp_path: Path) -> None:
    good = '<lex lid="Id1">Good.</lex>'
    records, rejects = read(
        tmp_path,
        entry(["a | b | c"], good),
        entry(["a | b"], good, "Id2"),
        entry([], good, "Id3"),
        entry(["a | b | c"], good),
        entry(["a | b | c"], good + '<lex lid="Id2"> </lex>', "Id5"),
    )
    assert [record.id for record in records] == [f"webnlg-train-1-City-{eid}" for eid in ("Id1", "Id1-2", "Id5")]
    expected = [
        (8, "1-City-Id2", "this has 2"),
        (13, "0-City-Id3", "no triples"),
        (23, "1-City-Id5-Id2", "text is empty"),
    ]
    for reject, (line, identifier, reason) in zip(rejects, expected, strict=True):
        assert (reject.line, reject.id, reason in reject.reason) == (line, f"webnlg-train-{identifier}", True)


def test_a_folder_is_read_by_size_then_name(tmp_path: Path) -> None:
    for size, name in (("2triples", "A"), ("1triples", "B"), ("1triples", "A")):
        (tmp_path / size).mkdir(exist_ok=True)
        text = entry(["a | b | c"], '<lex lid="Id1">T.</lex>', f"{size}{name}")
        (tmp_path / size / f"{name}.xml").write_text(f"<benchmark>{text}</benchmark>")
    records, _ = split_rejects(read_webnlg(tmp_path, "dev"))
    assert [record.id.split("-")[-1] for record in records] == ["1triplesA", "1triplesB", "2triplesA"]
