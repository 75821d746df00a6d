"""The embedded corpus: the same records always, in the numbers that its documentation gives."""

from __future__ import annotations

import hashlib
import json

import pytest

from agggen.corpora.elements import SPLITS, elements_records
from agggen.errors import CorpusError
from agggen.records import Plan

SHA256 = "02560136e5d7c017223d84993a481dcb086c72291b56a2a0b9c8b932c90e3488"


def test_the_records_are_the_same_as_ever() -> None:
    """Trained models, reported numbers and cached facts refer to them."""
    digest = hashlib.sha256()
    for split in SPLITS:
        for record in elements_records(split):
            digest.update(json.dumps(record.as_dict(), ensure_ascii=False, sort_keys=True).encode())
    assert digest.hexdigest() == SHA256


@pytest.mark.parametrize(
    ("split", "counts"),
    [("train", (94, 1128, 3384, 4.11, 3.10)), ("dev", (12, 72, 216, 4.29, 3.28)), ("test", (12, 72, 216, 4.54, 3.27))],
)
def test_counts_are_those_of_the_docstring(split: str, counts: tuple[float, ...]) -> None:
    records = list(elements_records(split))
    references = [reference for record in records for reference in record.references]
    triples = sum(len(record.triples) for record in records) / len(records)
    facts = sum(len(reference.facts or ()) for reference in references) / len(references)
    subjects = {record.triples[0].subject for record in records}
    assert (len(subjects), len(records), len(references), round(triples, 2), round(facts, 2)) == counts


def test_facts_concatenate_to_the_text_and_spell_the_plan() -> None:
    for record in elements_records("train"):
        for reference in record.references:
            assert reference.facts is not None and reference.plan is not None
            assert "".join(fact.text for fact in reference.facts) == reference.text
            assert Plan(tuple(fact.predicates or () for fact in reference.facts)) == reference.plan
            assert sorted(reference.plan.predicates) == sorted(record.predicates)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"no split 'dve'; its splits are train, dev, test"):
        elements_records("dve")
