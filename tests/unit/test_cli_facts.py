"""`agggen facts inspect`: what it shows of texts and corpora, and the page it writes."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agggen.facts.clauses import ClauseSegmenter
from agggen_platform.cli.main import main


def agggen(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as exit_:
        main(["facts", "inspect", *arguments])
    return exit_.value.code


def test_facts_of_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Bolt, who was drawn by Gary Cohn, is a comic character."
    assert agggen(text, "--facts", "clauses") == 0
    shown = capsys.readouterr()
    (facts,) = ClauseSegmenter().segment([text])
    assert len(facts) > 1
    assert shown.out.splitlines() == [text, *(f"  {n}. {fact.strip()}" for n, fact in enumerate(facts, start=1))]
    assert "no trees" in shown.err


def test_the_shipped_tagger_cuts_by_default_and_a_level_may_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = "The Fig serves fish and was built in 1990 by Ann Roe, who is a chef."
    shown = {}
    for arguments in ((), ("--facts", "embedded"), ("facts.level=full",), ("--level", "paper")):
        assert agggen(text, *arguments) == 0
        shown[arguments] = capsys.readouterr().out
    assert "(V serves)" in shown[()] and "3. who is a chef." in shown[()]
    assert shown[()] == shown["--facts", "embedded"] == shown["facts.level=full",] != shown["--level", "paper"]


def test_facts_by_frames_found_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Bolt", "is", "big", "."]
    tags = ["B-ARG1", "B-V", "B-ARG2", "O"]
    frames = tmp_path / "frames.jsonl"
    frames.write_text(json.dumps([{"words": words, "verbs": [{"verb": "is", "tags": tags}]}]) + "\n", encoding="utf-8")
    assert agggen("Bolt is big.", "--facts", "precomputed", f"facts.precomputed={frames}") == 0
    assert "(S (is (ARG1 Bolt) (V is) (ARG2 big)) .)" in capsys.readouterr().out
    assert agggen("Bolt is small.", "--facts", "precomputed", f"facts.precomputed={frames}") == 2
    assert "has no frames for the text 'Bolt is small.'" in capsys.readouterr().err


def test_facts_of_a_corpus_with_their_triples(capsys: pytest.CaptureFixture[str]) -> None:
    assert agggen("--corpus", "elements", "--record", "elements-dev-Ne-01", "--limit", "2", "--facts", "clauses") == 0
    shown = capsys.readouterr().out
    assert shown.count("elements-dev-Ne-01: ") == 2
    assert "[discoveryPlace" in shown


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_escapes_what_texts_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "facts.html"
    text = "Bolt <script>alert('{0}')</script> is a comic & was drawn by Cohn."
    assert agggen(text, "--facts", "clauses", "--html", str(page)) == 0
    assert capsys.readouterr().out == f"{page}\n"
    tags = Tags()
    tags.feed(page.read_text(encoding="utf-8"))
    assert "script" not in tags.tags
    assert text in tags.text
    assert tags.tags.count("section") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either texts in quotes, or --corpus"),
        (("A text.", "--corpus", "elements"), "either texts in quotes, or --corpus"),
        (("A text.", "--record", "x"), "--record needs a --corpus"),
        (("--corpus", "elements", "--record", "x"), "elements dev has no record 'x'"),
        (("A text.", "--facts", "nope"), "'facts.source' must be one of 'embedded', 'allennlp'"),
        (("A text.", "--level", "half"), "'facts.level' must be one of 'paper', 'full'"),
        (("A text.", "--facts", "allennlp"), "needs an archive"),
        (("A text.", "facts.levl=paper"), "unknown key 'facts.levl' in override 'facts.levl=paper'"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agggen(*arguments) == 2
    assert message in capsys.readouterr().err
