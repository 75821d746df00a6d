"""Coverage: which triples a text mentions."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen.corpora.webnlg import read_webnlg
from agggen.errors import AggGenError
from agggen.evaluation.coverage import coverage, mentioned
from agggen.records import Record, Triple


@pytest.mark.parametrize(
    ("predicate", "value", "text", "found"),
    [
        ("near", "Café Rouge", "It is by Cafe Rouge.", True),
        ("near", "Café Rouge", "It is by a café.", False),
        ("population", "16,000", "16000 people live there", True),
        ("population", "16,000", "16001 people live there", False),
        ("birthDate", "1990-05-03", "born on 3 May 1990", True),
        ("birthDate", "1990-05-03", "born in 1990", False),
        ("familyFriendly", "yes", "It welcomes families and is child friendly.", True),
        ("familyFriendly", "no", "It is not family-friendly.", True),
        ("familyFriendly", "no", "It is a pub. No!", False),
        ("author", "Bolt (comicsCharacter)", "Bolt did it", True),
        ("area", "75.3 (square kilometres)", "it measures 75.3", True),
        ("name", "The Who", "A song by The Who.", True),
        ("name", "The Who", "A song by them.", False),
        ("name", "(ab)", "the sign (ab) is here", True),
        ("sign", "?!", "what?!", True),
    ],
)
def test_mentioned(predicate: str, value: str, text: str, found: bool) -> None:
    assert mentioned(Triple("Ann", predicate, value), text) is found


def test_coverage_is_the_share_of_triples() -> None:
    record = Record("r", (Triple("Ann", "born", "Rome"), Triple("Ann", "died", "Oslo"), Triple("Ann", "job", "pilot")))
    score = coverage([record, record], ["Ann, a pilot, was born in Rome.", "Ann died in Oslo."])
    assert score.value == pytest.approx(50)
    assert "threshold:0.6" in score.signature


def test_bad_input_is_refused() -> None:
    with pytest.raises(AggGenError, match="0 records but 1 texts"):
        coverage([], ["a"])
    with pytest.raises(AggGenError, match="no records"):
        coverage([], [])


def test_people_cover_nearly_everything(data_home: Path) -> None:
    records = [item for item in read_webnlg(data_home / "webnlg_2017" / "dev", "dev") if isinstance(item, Record)]
    pairs = [(record, reference.text) for record in records for reference in record.references]
    theirs = coverage([record for record, _ in pairs], [text for _, text in pairs])
    shifted = [*pairs[1000:], *pairs[:1000]]
    strangers = coverage([record for record, _ in pairs], [text for _, text in shifted])
    assert theirs.value > 95
    assert strangers.value < 10
