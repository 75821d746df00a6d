"""Records and texts as the model's numbers: a vocabulary, a predicate table, and the hard alignment of METHOD 4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from agggen.alignment import hard_constraints
from agggen.corpora.rejects import Reject
from agggen.errors import BundleError, RecordError
from agggen.facts import segment_each
from agggen.model.batch import Example
from agggen.records import Fact, Record, Reference
from agggen.text import EncodedSource, Vocabulary

if TYPE_CHECKING:
    from agggen.facts import FactSegmenter

Constraints = Literal["release", "paper", "none"]
UNKNOWN_PREDICATE = "[unknown]"
_TEXTS_AT_ONCE = 4096  # that a segmenter is given, and cuts again in halves when it fails on one of them


@dataclass(frozen=True)
class Encoder:
    """Turns records into examples. Predicate id 0 stands for every predicate that the table lacks."""

    vocabulary: Vocabulary
    predicates: tuple[str, ...]  # unique names as in Record.predicates; the first is UNKNOWN_PREDICATE
    max_group_size: int = 3
    _index: dict[str, int] = field(init=False, repr=False, compare=False)  # predicate -> id

    def __post_init__(self) -> None:
        if not self.predicates or self.predicates[0] != UNKNOWN_PREDICATE:
            raise BundleError(f"a predicate table must begin with {UNKNOWN_PREDICATE}")
        if len(set(self.predicates)) != len(self.predicates):
            raise BundleError("the predicate table lists a predicate twice")
        object.__setattr__(self, "_index", {name: index for index, name in enumerate(self.predicates)})

    @staticmethod
    def predicate_table(records: Iterable[Record]) -> tuple[str, ...]:
        """All predicates of a corpus in alphabetical order, behind the unknown one."""
        return (UNKNOWN_PREDICATE, *sorted({name for record in records for name in record.predicates}))

    def source(self, record: Record) -> tuple[Example, list[str]]:
        """The record without a text, and its words that the vocabulary lacks (ids from ``len(vocabulary)`` on)."""
        encoded = self.vocabulary.encode_source(record)
        return self._source(record, encoded), encoded.extras

    def predicate_ids(self, record: Record) -> tuple[int, ...]:
        """The places of the record's predicates in the predicate table; a third ``isPartOf`` has that of the first."""
        triples = zip(record.predicates, record.triples, strict=True)
        return tuple(self._index.get(name, self._index.get(triple.predicate, 0)) for name, triple in triples)

    def unknown(self, record: Record) -> tuple[str, ...]:
        """The record's predicates that training never saw."""
        return tuple(name for name, id_ in zip(record.predicates, self.predicate_ids(record), strict=True) if not id_)

    def _source(self, record: Record, encoded: EncodedSource) -> Example:
        ids, triple, role = tuple(encoded.ids), tuple(encoded.triple), tuple(encoded.role)
        return Example(record.id, ids, triple, role, self.predicate_ids(record))

    def example(self, record: Record, facts: Sequence[str], constraints: Constraints = "none") -> Example:
        """The record with a text given as facts that concatenate to it; facts in which no word starts are left out.

        Raises:
            RecordError: the text holds no words.
        """
        spans, position = [], 0
        for fact in facts:
            spans.append((position, position + len(fact)))
            position += len(fact)
        encoded = self.vocabulary.encode_source(record)
        try:
            target = self.vocabulary.encode_target("".join(facts), spans, encoded)
        except RecordError as error:
            raise RecordError(f"record {record.id!r}: {error}") from error
        ids: list[list[int]] = [[] for _ in target.kept]
        for token, fact_index in zip(target.ids, target.fact, strict=True):
            ids[fact_index].append(token)
        example = replace(self._source(record, encoded), facts=tuple(map(tuple, ids)), kept=tuple(target.kept))
        if constraints == "none":
            return example
        hard = hard_constraints(record, [facts[k] for k in target.kept], mode=constraints, max_size=self.max_group_size)
        return replace(example, required=_bits(hard.required), forbidden=_bits(hard.forbidden), max_size=hard.max_size)


def _bits(groups: Sequence[frozenset[int]]) -> tuple[int, ...]:
    return tuple(sum(1 << index for index in group) for group in groups)


def segmented(
    records: Sequence[Record],
    segmenter: FactSegmenter | None,
    rejects: list[Reject] | None = None,
    corpus: str = "",
) -> list[Record]:
    """The records with facts in every reference: the corpus's own (segmenter None), or the segmenter's.

    Args:
        records: of the corpus or split that is named `corpus`.
        segmenter: cuts the texts.
        rejects: gets the references that the segmenter cannot cut, which are left out; where it is None, they are an
            error. A record is left out with its last reference.

    Raises:
        RecordError: no segmenter is given and a reference has no facts.
        AggGenError: the segmenter's own, where `rejects` is None.
    """
    if segmenter is None:
        for record in records:
            if any(reference.facts is None for reference in record.references):
                raise RecordError(
                    f"record {record.id!r} has a reference without facts; have them cut (facts.source=embedded), "
                    "or cut the corpus first with agggen segment"
                )
        return list(records)
    texts = [reference.text for record in records for reference in record.references]
    if rejects is None:
        facts, errors = dict(zip(texts, segmenter.segment(texts), strict=True)), dict[str, str]()
    else:
        facts, errors = {}, {}
        different = list(dict.fromkeys(texts))
        for start in range(0, len(different), _TEXTS_AT_ONCE):
            some_facts, some_errors = segment_each(segmenter, different[start : start + _TEXTS_AT_ONCE])
            facts |= some_facts
            errors |= some_errors
    result: list[Record] = []
    for record in records:
        references = []
        for number, reference in enumerate(record.references, start=1):
            if reference.text in facts:
                cut = tuple(map(Fact, facts[reference.text]))
                references.append(Reference(reference.text, cut, reference.plan))
            elif rejects is not None:
                reason = f"reference {number}: {errors[reference.text]}"
                rejects.append(Reject(corpus, None, record.id, reason))
        if references or not record.references:
            result.append(replace_references(record, tuple(references)))
    return result


def replace_references(record: Record, references: tuple[Reference, ...]) -> Record:
    """`record` with other references (dataclasses.replace cannot pass the derived predicates)."""
    return Record(record.id, record.triples, references, record.category)


def training_examples(
    records: Iterable[Record],
    encoder: Encoder,
    constraints: Constraints,
    rejects: list[Reject] | None = None,
    corpus: str = "",
) -> Iterator[Example]:
    """One example a reference; a text whose facts are not known is a single fact.

    Args:
        records: of the corpus or split that is named `corpus`.
        encoder: makes the examples.
        constraints: how the hard alignment prunes states.
        rejects: gets the references that hold no words; where it is None, they are an error.

    Raises:
        RecordError: a text holds no words, where `rejects` is None.
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
