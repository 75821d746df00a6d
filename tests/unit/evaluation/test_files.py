"""Texts to be scored: the first invalid line raises an error with file and line."""

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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "texts.txt is empty"),
        (b"one\n", "texts.txt ends after line 1, but records.jsonl has 2 records"),
        (b"one\ntwo\nthree\nfour\n", r"texts.txt, line 3: there is no record for this line; .* has 2 .*has 4 lines\)"),
        (b"one\ntwo\n\n", "texts.txt, line 3: .*that line is blank"),
        (b"one\nt\xffo\n", "texts.txt, line 2: not UTF-8 .*position 2"),
    ],
)
def test_invalid_texts_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        read_texts(path, ["a", "b"], "records.jsonl")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"cannot read .*texts.txt: No such file"):
        read_texts(tmp_path / "texts.txt", ["a"], "records.jsonl")


def test_texts_as_json_lines_are_found_by_id(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": 2, "text": "Two\\nlines", "plan": "[a]"}\n\n{"id": "1", "text": ""}\n', encoding="utf-8")
    assert read_texts(path, ["1", "2"], "records.jsonl") == ["", "Two\nlines"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "1"}', "line 1: needs an 'id' and a 'text'"),
        ('{"id": "9", "text": "a"}', "line 1, id '9': records.jsonl has no such record"),
        ('{"id": "1", "text": "a"}\n{"id": "1", "text": "b"}', "line 2, id '1': line 1 has the same id"),
        ('{"id": "1", "text": "a"}', "has no text for record '2' and 1 others of records.jsonl"),
    ],
)
def test_texts_as_json_lines_must_match_the_records(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=message):
        read_texts(path, ["1", "2", "3"], "records.jsonl")
