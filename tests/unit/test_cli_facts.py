"""`agggen facts inspect` of texts and corpora."""

import pytest

from agggen.facts.clauses import ClauseSegmenter
from agggen_platform.cli.facts import bracketed
from tests.command import Run, check_refused, check_succeeds
from tests.unit.facts.role_notation import sentence


def test_facts_of_a_text(run: Run) -> None:
    text = "Bolt, who was drawn by Gary Cohn, is a comic character."
    out, err = check_succeeds(run("facts", "inspect", text, "--facts", "clauses"))
    (facts,) = ClauseSegmenter().segment([text])
    assert len(facts) > 1
    assert out.splitlines() == [text, *(f"  {n}. {fact.strip()}" for n, fact in enumerate(facts, start=1))]
    assert "no trees" in err


def test_the_shipped_tagger_is_the_default_and_levels_differ(run: Run) -> None:
    text = "The Fig serves fish and was built in 1990 by Ann Roe, who is a chef."
    options = ((), ("--facts", "embedded"), ("facts.level=full",), ("facts.level=paper",))
    outputs = [run("facts", "inspect", text, *arguments) for arguments in options]
    assert {code for code, *_ in outputs} == {0}
    default, embedded, full, paper = (shown for _, shown, _ in outputs)
    assert "(V serves)" in default and "3. who is a chef." in default
    assert default == embedded == full != paper


def test_facts_of_a_corpus_with_their_triples(run: Run) -> None:
    words = ("--corpus", "elements", "--record", "elements-dev-Ne-01", "--limit", "2", "--facts", "clauses")
    shown, _ = check_succeeds(run("facts", "inspect", *words))
    assert shown.count("elements-dev-Ne-01: ") == 2
    assert "[discoveryPlace" in shown


def test_a_frame_in_an_argument_keeps_its_position() -> None:
    text = "Ann ( 30 ) lives in Oslo , which lies in Norway ."
    nested = sentence(
        text,
        "[ARG0: Ann ( 30 )] [V: lives] [ARGM-LOC: in Oslo , which lies in Norway] .",
        "Ann ( 30 ) lives in [ARG1: Oslo] , [R-ARG1: which] [V: lies] [ARGM-LOC: in Norway] .",
    )
    inner = "(lies (ARG1 Oslo) , (R-ARG1 which) (V lies) (ARGM-LOC in Norway))"
    assert bracketed(nested) == f"(S (lives (ARG0 Ann -LRB- 30 -RRB-) (V lives) (ARGM-LOC in {inner})) .)"
    assert bracketed(sentence("No verb .")) == "(S No verb .)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either texts in quotes, or --corpus"),
        (("A text.", "--corpus", "elements"), "either texts in quotes, or --corpus"),
        (("A text.", "--record", "x"), "--record needs --corpus"),
        (("--corpus", "elements", "--record", "x"), "elements dev has no record 'x'"),
        (("A text.", "--facts", "nope"), "'facts.source' must be 'embedded', 'allennlp'"),
        (("A text.", "facts.level=half"), "'facts.level' must be 'paper'"),
        (("A text.", "--facts", "allennlp"), "needs an archive"),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[str, ...], message: str, run: Run) -> None:
    check_refused(run("facts", "inspect", *arguments), 2, message)
