"""CSV of the user's own records, and rows that cannot be read."""

from __future__ import annotations

import io

import pytest

from agggen.corpora.delimited import read_csv
from agggen.corpora.rejects import Reject, split_rejects
from agggen.errors import CorpusError
from agggen.records import Record, Triple


def read(content: str | bytes, delimiter: str = ",") -> tuple[list[Record], list[Reject]]:
    data = content.encode() if isinstance(content, str) else content
    return split_rejects(read_csv(io.BytesIO(data), "mine.csv", delimiter))


def test_rows_of_one_id_form_a_record_wherever_they_stand() -> None:
    records, rejects = read(
        "id,Subject ,predicate,object,text,category\n"
        "b,Mill,area,city,The mill.,Place\n"
        "a,Door,food,Thai,,\n"
        "\n"
        "b,Mill,age,90,,\n"
        "b,Mill,area,city,Another text.,\n"
    )
    assert rejects == []
    assert [record.id for record in records] == ["b", "a"]
    assert records[0].triples == (Triple("Mill", "area", "city"), Triple("Mill", "age", "90"))
    assert [reference.text for reference in records[0].references] == ["The mill.", "Another text."]
    assert (records[0].category, records[1].category) == ("Place", None)


def test_without_an_id_the_subject_groups() -> None:
    records, _ = read("subject\tpredicate\tobject\nA\tb\tc\nD\te\tf\nA\tg\th\n", "\t")
    assert [(record.id, record.predicates) for record in records] == [("A", ("b", "g")), ("D", ("e",))]


def test_a_bad_row_rejects_its_record_and_no_other() -> None:
    records, rejects = read("id,subject,predicate,object\n1,A,b,c\n2,A,b,c\n1,A,,c\n,A,b,c\n3,A,b\n")
    assert [record.id for record in records] == ["2"]
    assert [(reject.line, reject.id, reject.reason) for reject in rejects] == [
        (4, "1", "the triple's predicate is empty"),
        (5, None, "the id is empty"),
        (6, None, "3 fields where the header has 4"),
        (2, "1", "another row of this record was rejected"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "mine.csv is empty"),
        ("\n\n", "has no header; its first line must name subject, predicate, object"),
        (
            "id,subject,pred\n1,a,b\n",
            "line 1: no column predicate, object; it needs subject, .* and has id, subject, pred",
        ),
        (b"subject,predicate,object\na,b,\xff\n", "line 2: not UTF-8"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole(content: str | bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read(content)


def test_a_field_over_the_csv_limit_is_a_reject() -> None:
    records, rejects = read("subject,predicate,object\nA,b," + "x" * 200_000 + "\nB,b,c\n")
    assert [record.id for record in records] == ["B"]
    assert [(reject.line, reject.reason) for reject in rejects] == [
        (2, "not valid CSV: field larger than field limit (131072)")
    ]


def test_an_unclosed_quote_says_which_lines_it_swallowed() -> None:
    records, rejects = read('subject,predicate,object\nA,b,c\nB,b,"c\nC,b,c\n')
    assert [record.id for record in records] == ["A"]
    assert [(reject.line, reject.reason) for reject in rejects] == [
        (3, "not valid CSV: unexpected end of data (lines 3 to 4)")
    ]
