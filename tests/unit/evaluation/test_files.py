"""Files of texts to score: the first invalid line is an error with file and line."""

from pathlib import Path

import pytest

from agggen.errors import CorpusError
from agggen.evaluation.files import read_texts


@pytest.mark.parametrize(
    "content",
    [
        b"one\n\nthr\xc3\xa9\xe2\x80\xa8e\n",
        b"one\r\n\r\nthr\xc3\xa9\xe2\x80\xa8e",
        b"\xef\xbb\xbfone\n\nthr\xc3\xa9\xe2\x80\xa8e",
    ],
)
def test_texts_are_separated_by_line_feeds(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    assert read_texts(path, ["a", "b", "c"], "records.jsonl") == ["one", "", "thré\u2028e"]


def test_texts_as_json_lines_are_found_by_id(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": 2, "text": "Two\\nlines", "plan": "[a]"}\n\n{"id": "1", "text": ""}\n', encoding="utf-8")
    assert read_texts(path, ["1", "2"], "records.jsonl") == ["", "Two\nlines"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("texts.txt", None, "cannot read .*texts.txt: No such file"),
        ("texts.txt", b"", "texts.txt is empty"),
        ("texts.txt", b"one\n", "texts.txt ends after line 1, but records.jsonl has 2 records"),
        ("texts.txt", b"one\n2\n3\n4\n", r"texts.txt, line 3: there is no record for this line; .* 2 .*has 4 lines\)"),
        ("texts.txt", b"one\ntwo\n\n", "texts.txt, line 3: .*that line is blank"),
        ("texts.txt", b"one\nt\xffo\n", "texts.txt, line 2: not UTF-8 .*position 2"),
        ("texts.jsonl", b'{"id": "1"}', "line 1: needs an 'id' .string or integer. and a 'text'"),
        ("texts.jsonl", b'{"id": "9", "text": "a"}', "line 1, id '9': records.jsonl has no such record"),
        ("texts.jsonl", b'{"id": "1", "text": "a"}\n' * 2, "line 2, id '1': line 1 has the same id"),
        ("texts.jsonl", b'{"id": "1", "text": "a"}', "has no text for record '2' of records.jsonl"),
        ("texts.jsonl", b"\n", "has no text for record '1' and 1 more of records.jsonl"),
    ],
)
def test_invalid_texts_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        read_texts(path, ["1", "2"], "records.jsonl")
