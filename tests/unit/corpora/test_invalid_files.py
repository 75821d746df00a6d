"""Missing, empty, undecodable and malformed files of each reader raise an error that names file and line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agggen.corpora.e2e import read_e2e
from agggen.corpora.json_lines import read_jsonl
from agggen.corpora.rel2text import read_corrupted, read_rel2text
from agggen.corpora.webnlg import read_webnlg
from agggen.datasets import read_file
from agggen.errors import CorpusError

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
        ("rel2text.json", b'{"data": ', "is not a split of Rel2Text"),
        ("rel2text.tsv", b"head\trelation\na\tb", "has no column"),
        ("webnlg.xml", b"<benchmark>\n<e>\n</benchmark>", r", line 3, .* 3: not well-formed XML \(mismatched tag\)"),
        ("webnlg.xml", b"<benchmark>\n<entr", ", line 2, .*not well-formed"),
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
