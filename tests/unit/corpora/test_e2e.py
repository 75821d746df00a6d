"""E2E: slots to triples, rows to records, invalid rows."""

from pathlib import Path

import pytest

from agggen.corpora.e2e import parse_meaning, read_e2e
from agggen.corpora.rejects import Reject, split_rejects
from agggen.errors import RecordError
from agggen.records import Record


def read(folder: Path, text: str) -> tuple[list[Record], list[Reject]]:
    (folder / "dev.csv").write_text(text, encoding="utf-8")
    return split_rejects(read_e2e(folder / "dev.csv", "dev"))


@pytest.mark.parametrize(
    ("meaning", "triples"),
    [
        ("name[B D], customer rating[5 of 5], near[Café X]", ["B D | customerRating | 5 of 5", "B D | near | Café X"]),
        ("food[Thai], name[A]", ["A | food | Thai"]),
        ("name[A],eatType[pub] , eatType[bar]", ["A | eatType | pub", "A | eatType | bar"]),
        ("name[A], name[B], area[city]", ["A | name | B", "A | area | city"]),
        ("name[A]", ["A | name | A"]),
        ("food[Thai], area[city]", [" | food | Thai", " | area | city"]),
        ("name[A], price range[less than £20, or so]", ["A | priceRange | less than £20, or so"]),
    ],
)
def test_slots_become_triples(meaning: str, triples: list[str]) -> None:
    assert list(map(str, parse_meaning(meaning))) == triples


@pytest.mark.parametrize(
    ("meaning", "message"),
    [
        ("", "column 1 of the meaning representation"),
        ("name", r"column 1 .* expected slot\[value\]"),
        ("name[A], food", "column 9 "),
        ("name[A], food[Thai", "column 9 "),
        ("name[A] food[Thai]", "column 1 "),
        ("name[A], food[Th[ai]]", "column 9 "),
        ("name[A], food[ ]", "the slot 'food' .* has no value"),
    ],
)
def test_a_malformed_meaning_representation_names_the_column(meaning: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        parse_meaning(meaning)


def test_rows_with_the_same_meaning_form_one_record_in_any_order(tmp_path: Path) -> None:
    records, rejects = read(
        tmp_path,
        "mr,ref,fixed,orig_mr\n"
        '"name[A], food[Thai]","First,\nin two lines.",0,x\n'
        "name[B],About B.,1,x\n"
        '"name[A], food[Thai]",Second.,0,y\n',
    )
    assert rejects == []
    assert [record.id for record in records] == ["e2e-dev-00001", "e2e-dev-00002"]
    assert [reference.text for reference in records[0].references] == ["First,\nin two lines.", "Second."]


def test_invalid_rows_are_rejected_with_their_first_line(tmp_path: Path) -> None:
    records, rejects = read(
        tmp_path,
        'mr,ref\n"name[A], area[x]","Two\nlines."\nfood,No value.\n'
        "name[B], area[x],Unquoted.\nname[C], \nname[D],Fine.\n",
    )
    assert [reference.text for record in records for reference in record.references] == ["Two\nlines.", "Fine."]
    assert [str(reject).removeprefix(f"{tmp_path}/") for reject in rejects] == [
        "dev.csv:4: column 1 of the meaning representation 'food': expected slot[value]",
        "dev.csv:5: 3 fields where the header has 2",
        "dev.csv:6: a reference text is empty",
    ]
