"""Encodes records and texts as `Example`s: token ids, predicate ids, hard alignment (METHOD 4 of agggen/README.md)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agggen.alignment import hard_constraints
from agggen.corpora.rejects import Reject
from agggen.errors import BundleError, RecordError
from agggen.facts import FactSegmenter, segment_each
from agggen.model.batch import Example
from agggen.records import Fact, Record, Reference
from agggen.text import EncodedSource, Vocabulary

Constraints = Literal["release", "paper", "none"]
UNKNOWN_PREDICATE = "[unknown]"
_TEXTS_PER_CALL = 4096  # if a call fails, `segment_each` repeats it on halves of its texts


@dataclass(frozen=True)
class Encoder:
    """Turns records into examples. Predicates that are not in the table have the id 0."""

    vocabulary: Vocabulary
    predicates: tuple[str, ...]  # unique names as in Record.predicates; the first is UNKNOWN_PREDICATE
    max_group_size: int = 3
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)  # by predicate

    def __post_init__(self) -> None:
        if not self.predicates or self.predicates[0] != UNKNOWN_PREDICATE:
            raise BundleError(f"a predicate table must begin with {UNKNOWN_PREDICATE}")
        if len(set(self.predicates)) != len(self.predicates):
            raise BundleError("the predicate table contains a predicate twice")
        object.__setattr__(self, "_ids", {predicate: index for index, predicate in enumerate(self.predicates)})

    @staticmethod
    def predicate_table(records: Iterable[Record]) -> tuple[str, ...]:
        """The unknown predicate, then all predicates of a corpus in alphabetical order."""
        return (UNKNOWN_PREDICATE, *sorted({predicate for record in records for predicate in record.predicates}))

    def source(self, record: Record) -> tuple[Example, list[str]]:
        """The example of a record without a text, and the out-of-vocabulary words (`EncodedSource.extras`)."""
        encoded = self.vocabulary.encode_source(record)
        return self._source_example(record, encoded), encoded.extras

    def _source_example(self, record: Record, encoded: EncodedSource) -> Example:
        ids, triple, role = tuple(encoded.ids), tuple(encoded.triple), tuple(encoded.role)
        return Example(record.id, ids, triple, role, self.predicate_ids(record))

    def predicate_ids(self, record: Record) -> tuple[int, ...]:
        """The ids of the record's predicates. If ``isPartOf_2`` is not in the table, it has the id of ``isPartOf``."""
        triples = zip(record.predicates, record.triples, strict=True)
        return tuple(self._ids.get(predicate, self._ids.get(triple.predicate, 0)) for predicate, triple in triples)

    def unknown_predicates(self, record: Record) -> tuple[str, ...]:
        """The record's predicates that are not in the table."""
        ids = zip(record.predicates, self.predicate_ids(record), strict=True)
        return tuple(predicate for predicate, predicate_id in ids if predicate_id == 0)

    def example(self, record: Record, facts: Sequence[str], constraints: Constraints = "none") -> Example:
        """The example of a record with a text; raises RecordError if the text contains no words.

        `facts` are the segments of the text; segments in which no word starts are dropped.
        """
        encoded = self.vocabulary.encode_source(record)
        try:
            ids = self.vocabulary.encode_target(facts, encoded)
        except RecordError as error:
            raise RecordError(f"record {record.id!r}: {error}") from error
        example = replace(self._source_example(record, encoded), facts=tuple(map(tuple, ids.values())), kept=tuple(ids))
        if constraints == "none":
            return example
        kept_facts = [facts[index] for index in ids]
        hard = hard_constraints(record, kept_facts, mode=constraints, max_size=self.max_group_size)
        required, forbidden = _bit_masks(hard.required), _bit_masks(hard.forbidden)
        return replace(example, required=required, forbidden=forbidden, max_size=hard.max_size)


def _bit_masks(groups: Sequence[frozenset[int]]) -> tuple[int, ...]:
    return tuple(sum(1 << index for index in group) for group in groups)


def segmented(
    records: Sequence[Record], segmenter: FactSegmenter | None, rejects: list[Reject], corpus: str = ""
) -> list[Record]:
    """The records with facts in every reference: from `segmenter` or, if it is None, from the corpus.

    References that cannot be segmented are added to `rejects` and dropped. A record that loses all its references is
    dropped. Raises RecordError if a reference has no facts and `segmenter` is None.
    """
    if segmenter is None:
        for record in records:
            if any(reference.facts is None for reference in record.references):
                advice = "set facts.source=embedded, or segment the corpus first with agggen segment"
                raise RecordError(f"record {record.id!r} has a reference without facts; {advice}")
        return list(records)
    facts: dict[str, tuple[str, ...]] = {}
    errors: dict[str, str] = {}
    texts = list(dict.fromkeys(reference.text for record in records for reference in record.references))
    for start in range(0, len(texts), _TEXTS_PER_CALL):
        block_facts, block_errors = segment_each(segmenter, texts[start : start + _TEXTS_PER_CALL])
        facts |= block_facts
        errors |= block_errors
    result: list[Record] = []
    for record in records:
        references = []
        for number, reference in enumerate(record.references, start=1):
            if reference.text in facts:
                reference_facts = tuple(map(Fact, facts[reference.text]))
                references.append(Reference(reference.text, reference_facts, reference.plan))
            else:
                rejects.append(Reject(corpus, None, record.id, f"reference {number}: {errors[reference.text]}"))
        if references or not record.references:
            result.append(replace(record, references=tuple(references)))
    return result


def training_examples(
    records: Iterable[Record],
    encoder: Encoder,
    constraints: Constraints,
    rejects: list[Reject] | None = None,
    corpus: str = "",
) -> Iterator[Example]:
    """One example per reference; a text whose facts are not known is a single fact.

    A reference without words is added to `rejects`; if `rejects` is None, it raises RecordError.
    """
    for record in records:
        for reference in record.references:
            facts = [fact.text for fact in reference.facts or ()] or [reference.text]
            try:
                example = encoder.example(record, facts, constraints)
            except RecordError as error:
                if rejects is None:
                    raise
                rejects.append(Reject(corpus, None, record.id, str(error).removeprefix(f"record {record.id!r}: ")))
            else:
                yield example
