"""Statistics and likely errors of a dataset, for `agggen prepare`."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from agggen.datasets import Dataset
from agggen.records import Record
from agggen.verification.check import Checker

RARE_BELOW = 20  # predicates with fewer training texts are reported as rare
MAX_CHECKED_TEXTS = 2_000  # maximum number of training texts that are checked, evenly spaced in the split


@dataclass
class PredicateUse:
    """Statistics of a predicate in the training records."""

    n_texts: int = 0  # number of texts of records with the predicate
    values: set[str] = field(default_factory=set)
    n_checked: int = 0  # number of values of the predicate that were checked
    missing: list[str] = field(default_factory=list)  # values without any word in the text: ``'VALUE' (record ID)``


@dataclass(frozen=True)
class Examination:
    """The result of `examine`."""

    predicates: dict[str, PredicateUse]  # the predicates of the training records, by descending number of texts
    findings: list[str]  # likely errors: the problem, how often it occurs, and its first examples
    n_checked_texts: int  # number of checked training texts


def examine(data: Dataset) -> Examination:
    """Examines the records of all splits, and up to `MAX_CHECKED_TEXTS` training texts with the strict check.

    A value is missing if none of its words is in the text; a number or name is hallucinated if it is in no triple.
    """
    uses: dict[str, PredicateUse] = defaultdict(PredicateUse)
    pairs: list[tuple[Record, str]] = []
    for record in data.train:
        for triple in record.triples:
            uses[triple.predicate].values.add(triple.object)
        for predicate in {triple.predicate for triple in record.triples}:
            uses[predicate].n_texts += len(record.references)
        pairs += [(record, reference.text) for reference in record.references]
    sampled_pairs = pairs[:: -(-len(pairs) // MAX_CHECKED_TEXTS) or 1]
    hallucinations: list[str] = []
    checker = Checker()
    for record, text in sampled_pairs:
        result = checker.check(record, text)
        for value in result.values:
            use = uses[value.triple.predicate]
            use.n_checked += 1
            if value.kind == "missing":
                use.missing.append(f"{value.triple.object!r} (record {record.id})")
        hallucinations += [f"{words!r} (record {record.id})" for words in result.invented]
    by_frequency = sorted(uses.items(), key=lambda item: item[1].n_texts)
    records = [(split, record) for split, split_records in data.splits.items() for record in split_records]
    examples_of = {
        "rows that could not be read": [str(reject) for rejects in data.rejects.values() for reject in rejects],
        "records without a text": [record.id for _, record in records if not record.references],
        "values without a word in a text": [f"{name} {value}" for name, use in uses.items() for value in use.missing],
        "numbers and names in texts that the record lacks": hallucinations,
        f"predicates with fewer than {RARE_BELOW} training texts": [
            f"{name} ({use.n_texts})" for name, use in by_frequency if use.n_texts < RARE_BELOW
        ],
        "predicates that are not in training": sorted(
            {triple.predicate for _, record in records for triple in record.triples} - uses.keys()
        ),
        "records with the same triples in several splits": _in_several_splits(
            (split, record, record.triples) for split, record in records
        ),
        "texts in several splits": _in_several_splits(
            (split, record, reference.text) for split, record in records for reference in record.references
        ),
    }
    return Examination(
        dict(sorted(uses.items(), key=lambda item: (-item[1].n_texts, item[0]))),
        [f"{name}: {len(found):,}, such as {'; '.join(found[:3])}" for name, found in examples_of.items() if found],
        len(sampled_pairs),
    )


def _in_several_splits(items: Iterable[tuple[str, Record, object]]) -> list[str]:
    """For each content that occurs in several splits: the names of these splits, each with the id of one record."""
    ids: dict[object, dict[str, str]] = defaultdict(dict)
    for split, record, content in items:
        ids[content].setdefault(split, record.id)
    return [
        ", ".join(f"{split} {identifier}" for split, identifier in id_of_split.items())
        for id_of_split in ids.values()
        if len(id_of_split) > 1
    ]
