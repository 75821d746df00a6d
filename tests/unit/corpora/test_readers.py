"""Readers of E2E, Rel2Text and WebNLG; invalid files and rows of all readers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agggen.corpora.e2e import parse_meaning, read_e2e
from agggen.corpora.rejects import Reject, split_rejects
from agggen.corpora.rel2text import read_corrupted, read_rel2text
from agggen.corpora.tables import read_jsonl
from agggen.corpora.webnlg import read_webnlg
from agggen.datasets import read_file
from agggen.errors import CorpusError, RecordError
from agggen.records import Plan, Record, Triple


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


def test_texts_of_one_triple_are_references_of_one_record(tmp_path: Path) -> None:
    item = "<head> Lucy's Cafe <rel> serves cuisine <tail> American cuisine"
    data = [{"in": item, "out": " A. "}, {"in": "Lucy's Cafe", "out": "B."}, 7, {"in": item, "out": ""}]
    data.append({"in": item, "out": "C."})
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    records, rejects = split_rejects(read_rel2text(path, "dev"))
    assert [(record.id, record.triples) for record in records] == [
        ("rel2text-dev-0001", (Triple("Lucy's Cafe", "serves cuisine", "American cuisine"),))
    ]
    assert [reference.text for reference in records[0].references] == ["A.", "C."]
    assert [reject.line for reject in rejects] == [2, 3, 4]
    assert 'item 2 has no "in" of the form' in rejects[0].reason


def test_corrupted_texts_exclude_held_out_relations(tmp_path: Path) -> None:
    path = tmp_path / "raw.tsv"
    rows = ("state response head relation tail", "ok A. a r b", "corrupted B. a r b", "corrupted C. a s b")
    path.write_text("\n".join(rows).replace(" ", "\t"), encoding="utf-8")
    assert read_corrupted(path, {"s"}) == [(Triple("a", "r", "b"), "B.")]


READERS: dict[str, Callable[[Path], object]] = {
    "e2e.csv": lambda path: list(read_e2e(path, "dev")),
    "mine.csv": read_file,
    "mine.jsonl": lambda path: list(read_jsonl(path)),
    "rel2text.json": lambda path: list(read_rel2text(path, "dev")),
    "rel2text.tsv": lambda path: read_corrupted(path, set()),
    "webnlg.xml": lambda path: list(read_webnlg(path, "train")),
}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e2e.csv", b"", "is empty"),
        ("e2e.csv", b"\n\n", "has no header; its first line must name mr, ref"),
        ("e2e.csv", b"MR,id\nname[A],1\n", ", line 1: no column ref; it needs mr, ref and has mr, id"),
        ("e2e.csv", b"mr,ref\na,\xff\n", ", line 2: not UTF-8"),
        ("mine.csv", b"title,star,star\nAlien,Weaver,Hurt\n", ", line 1: two columns are called 'star'"),
        ("mine.jsonl", b"", "is empty"),
        ("mine.jsonl", b'{"id": 1, "year": 2}\n\xff\n', ", line 2: not UTF-8"),
        ("rel2text.json", b"", "is not a split of Rel2Text"),
        ("rel2text.json", b"[]", "is not a split of Rel2Text"),
        ("rel2text.json", b"{}", "is not a split of Rel2Text"),
        ("rel2text.tsv", b"head\trelation\na\tb", "has no column"),
        ("webnlg.xml", b"<benchmark>\n<e>\n</benchmark>", r", line 3, .* 3: not well-formed XML \(mismatched tag\)"),
        ("webnlg.xml", b"", ", line 1, .*the file is empty"),
        ("webnlg.xml", b"<html/>", "root element is <html>, not <benchmark>"),
        ("webnlg.xml", b"<benchmark>\n<a>caf\xe9</a></benchmark>", ", line 2, column 7: not well-formed"),
        ("webnlg.xml", b'<!DOCTYPE b [<!ENTITY a "aaaa">]>\n<benchmark>&a;</benchmark>', ", line 1: DOCTYPE is not"),
        ("webnlg.xml", b'\n<!DOCTYPE b SYSTEM "file:///etc/hostname">\n<benchmark/>', ", line 2: DOCTYPE is not"),
        ("rel2text.tsv", None, "run `agggen corpora fetch rel2text`"),
        *((name, None, "No such file") for name in READERS),
    ],
)
def test_an_invalid_file_is_named_with_its_line(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=f"{name}.*{message}"):
        READERS[name](path)


def test_a_folder_without_files_of_webnlg_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"contains no \.xml file"):
        list(read_webnlg(tmp_path, "train"))


def entry(triples: list[str], lexes: str, eid: str = "Id1") -> str:
    inner = "".join(f"<mtriple>{triple}</mtriple>" for triple in triples)
    return (
        f'<entry category="City" eid="{eid}" size="{len(triples)}">\n'
        f"<originaltripleset><otriple>x | y | z</otriple></originaltripleset>\n"
        f"<modifiedtripleset>{inner}</modifiedtripleset>\n{lexes}\n</entry>\n"
    )


def read_entries(tmp_path: Path, *entries: str) -> tuple[list[Record], list[Reject]]:
    path = tmp_path / "City.xml"
    path.write_text(f"<benchmark>\n<entries>\n{''.join(entries)}</entries>\n</benchmark>\n", encoding="utf-8")
    return split_rejects(read_webnlg(path, "train"))


def test_an_entry_is_a_record_with_raw_triples(tmp_path: Path) -> None:
    texts = '<lex lid="Id1"> It is old. </lex><lex lid="Id2">Old.</lex>'
    (record,), rejects = read_entries(tmp_path, entry(['Old_Town | part of | "Upper &amp; Lower"'], texts))
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
    records, _ = read_entries(tmp_path, entry([A, B, C], enriched(*sentences)))
    assert records[0].references[0].plan == (plan and Plan.parse(plan))


def test_an_invalid_entry_is_rejected_with_its_line(tmp_path: Path) -> None:
    good = '<lex lid="Id1">Good.</lex>'
    records, rejects = read_entries(
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
