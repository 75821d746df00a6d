"""Records with an empty subject ("The pub serves Thai food."), from reading to scoring."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.alignment import align
from agggen.corpora.prepared import read_records, write_records
from agggen.corpora.tables import read_jsonl
from agggen.datasets import load_records
from agggen.errors import RecordError
from agggen.evaluation.values import check_values
from agggen.generation.fallbacks import fallback_sentence
from agggen.records import NO_SUBJECT, Record, Reference, Triple
from agggen.text.linearise import linearise
from agggen.verification.check import Checker
from agggen.verification.e2e import slot_errors
from agggen.verification.learning import learn
from agggen.verification.lenient import find_mentions
from agggen.verification.lexicon import Lexicon
from tests.unit.generation.test_generator import TRAIN, generator

PUB = Record(
    "pub",
    (Triple(NO_SUBJECT, "eatType", "pub"), Triple(NO_SUBJECT, "food", "Thai"), Triple(NO_SUBJECT, "area", "riverside")),
    (Reference("The pub serves Thai food by the riverside."),),
)
BERGEN = Record("bergen", (Triple(NO_SUBJECT, "birthPlace", "Bergen"), Triple(NO_SUBJECT, "age", "41")))


def test_every_file_format_keeps_the_empty_subject(tmp_path: Path) -> None:
    line = json.dumps(PUB.as_dict()).encode()
    assert json.loads(line)["triples"][0] == ["", "eatType", "pub"]
    assert list(read_jsonl(io.BytesIO(line))) == [PUB]
    write_records(tmp_path / "dev.parquet", [PUB], "mine", "dev")
    assert read_records(tmp_path / "dev.parquet") == [PUB]
    (tmp_path / "pub.csv").write_text("id,subject,predicate,object\npub,,eatType,pub\n")
    assert load_records(tmp_path / "pub.csv") == [Record("pub", PUB.triples[:1])]
    assert Triple.of({"subject": "", "predicate": "eatType", "object": "pub"}) == PUB.triples[0]


NOT_A_SUBJECT = r"""the triple's subject \("" for none\)"""


@pytest.mark.parametrize(
    ("triple", "message"),
    [
        *(([subject, "eatType", "pub"], NOT_A_SUBJECT) for subject in (None, " ", 3, "\x00")),
        (["", "", "pub"], "is empty"),
    ],
)
def test_other_empty_parts_are_refused(triple: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        Triple.of(triple)


def test_predicates_and_objects_are_encoded_and_aligned() -> None:
    source = linearise(PUB)
    assert " ".join(source.tokens) == "[CLS] eat type pub [SEP] food Thai [SEP] area riverside [SEP]"
    assert source.triple == [-1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert align(PUB, ["The pub serves Thai food ", "by the riverside."]).fact_of == (0, 0, 1)
    assert align(PUB, ["It is there. ", "Go."]).fact_of == (0, 1, 0), "triples without a mention are not aligned"


@pytest.mark.parametrize("verify", ["strict", "off"])
def test_texts_are_planned_and_generated(verify: str) -> None:
    untrained = generator()
    (plans,) = untrained.planner.plan([BERGEN], k=3)
    assert {plan.plan.predicates for plan in plans} <= {("birthPlace", "age"), ("age", "birthPlace")}
    config = replace(untrained.config, verify=verify)
    ((alone,), (first, *_)) = untrained.generate([BERGEN, TRAIN[0]], config=config)
    assert sorted(alone.plan.predicates) == ["age", "birthPlace"]
    assert first.id == "oda"
    if verify == "strict":
        assert alone.fulfilled
        assert not Checker().check(BERGEN, alone.text).faults


def test_plain_sentences_pass_the_check_without_a_subject() -> None:
    phrases = {"no": ("not allowed", "non family friendly"), "yes": ("family friendly",)}
    rules, pub = Checker(), Triple("", "eatType", "pub")
    learned = Checker(Lexicon(templates={"eatType": "{subject} is a {object}."}, booleans={"familyFriendly": phrases}))
    assert fallback_sentence(rules, pub) == fallback_sentence(learned, pub) == "The eat type is pub."
    assert fallback_sentence(learned, Triple("Mill", "eatType", "pub")) == "Mill is a pub."
    assert fallback_sentence(learned, Triple("Mill", "familyFriendly", "no")) == "Mill is non family friendly."
    assert fallback_sentence(learned, Triple("", "familyFriendly", "no")) == "It is non family friendly."
    assert fallback_sentence(learned, Triple("Mill", "familyFriendly", "yes")) == "Mill is family friendly."
    assert fallback_sentence(rules, Triple("Mill", "familyFriendly", "yes")) == "Mill: family friendly: yes."
    assert not learn([Record("r", PUB.triples[:1], (Reference("There is a pub."),))]).templates


@pytest.mark.parametrize("reading", ["published", "plain"])
def test_a_name_is_never_missed_but_may_be_added(reading: Any) -> None:
    right, named = "The pub serves Thai food by the riverside.", "The Mill is a pub with Thai food by the riverside."
    assert (slot_errors(PUB, right, reading).slots, slot_errors(PUB, right, reading).all) == (3, ())
    assert [(error.slot, error.said) for error in slot_errors(PUB, named, reading).added] == [("name", "The Mill")]


def test_coverage_counts_all_triples() -> None:
    text = "The pub serves Thai food."
    assert [check.mentioned for check in find_mentions(PUB, text).checks] == [True, True, False]
    statistics = check_values([PUB], [text]).statistics
    assert [statistics[name].corpus().value for name in ("values_whole", "values_lenient")] == pytest.approx(
        [200 / 3] * 2
    )
