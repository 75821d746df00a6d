"""Human plans and alignments: the annotated WebNLG references published with the AggGen paper.

For 100 inputs of WebNLG's seen test set, crowd workers annotated which triples each fact of a reference verbalises
(paper, section "Human-annotated Alignments"); texts with disagreement are excluded. Line i of each file is text i::

    webnlg_ann_src.jsonl    the tokenised triples, then their predicates: triple TAB triple TAB leader|isPartOf
    rst_ann_gt_plan.jsonl   the triples of each fact: isPartOf&&leader||capital; empty for a fact without triples
    rst_ann_tgt.jsonl       the tokenised facts: tree TAB fact TAB fact

Records and texts are those of WebNLG, matched by their letters. The release states no licence, so users must copy it
themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from agggen.corpora.rejects import Reject
from agggen.corpora.segmented import aligned_reference, attach_facts, letters, tab_separated
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Fact, Plan, Record, Reference

SOURCES, PLANS, TEXTS = "webnlg_ann_src.jsonl", "rst_ann_gt_plan.jsonl", "rst_ann_tgt.jsonl"


def read_annotated(folder: Path | str, records: Iterable[Record | Reject]) -> Iterator[Record | Reject]:
    """The annotated records among `records`, in the order of the files, with their annotated texts as references.

    A reference is the record's raw text if it can be matched, or else the tokenised text of the release. Its facts have
    the annotated predicates; they form its plan if they contain each triple exactly once. An invalid row is a reject of
    the file of plans.

    Raises:
        CorpusError: a file is missing or empty, or the numbers of lines differ.
    """
    paths = [Path(folder) / name for name in (SOURCES, PLANS, TEXTS)]
    sources, plans, texts = files = [[columns for _, columns in tab_separated(path)] for path in paths]
    if len({len(rows) for rows in files}) > 1:
        lengths = ", ".join(f"{path} has {len(rows)}" for path, rows in zip(paths, files, strict=True))
        raise CorpusError(f"{lengths} lines; they must correspond")
    known = {_key(_texts_of(record)): record for record in records if isinstance(record, Record)}
    annotated_records: dict[str, tuple[Record, list[Reference]]] = {}
    for line, (source, plan, text) in enumerate(zip(sources, plans, texts, strict=True), start=1):
        record = known.get(_key(source[:-1]))
        if record is None:
            reason = f"no record of WebNLG has the triples {'; '.join(source[:-1])!r:.200}"
            yield Reject(str(paths[1]), line, None, reason)
            continue
        try:
            annotated = aligned_reference([text[0], plan[0], *text[1:]])
            reference = _reference(record, annotated, _predicates(record, source))
        except AggGenError as error:
            yield Reject(str(paths[1]), line, record.id, str(error))
            continue
        annotated_records.setdefault(record.id, (record, []))[1].append(reference)
    for record, references in annotated_records.values():
        yield replace(record, references=tuple(references))


def _texts_of(record: Record) -> list[str]:
    return [f"{triple.subject} {triple.predicate} {triple.object}" for triple in record.triples]


def _key(triples: Iterable[str]) -> tuple[str, ...]:
    """A key that does not depend on the triples' order and tokenisation."""
    return tuple(sorted(letters(text) for text in triples))


def _predicates(record: Record, source: list[str]) -> dict[str, str]:
    """The record's predicates by their names in the annotation (``was_a_crew_member_of``)."""
    *triples, names = source
    annotated_names = names.split("|")
    if len(set(annotated_names)) != len(triples):
        raise RecordError(
            f"{len(triples)} triples but {len(set(annotated_names))} predicates in the last column of {SOURCES}"
        )
    record_predicates: dict[str, list[str]] = {}
    for text, predicate in zip(_texts_of(record), record.predicates, strict=True):
        record_predicates.setdefault(letters(text), []).append(predicate)
    return {name: record_predicates[letters(text)].pop(0) for name, text in zip(annotated_names, triples, strict=True)}


def _reference(record: Record, annotated: Reference, predicates: dict[str, str]) -> Reference:
    """`annotated` as a reference of `record`, with its raw text and predicates."""
    facts = annotated.facts or ()
    if unknown := sorted({name for fact in facts for name in fact.predicates or ()} - set(predicates)):
        raise RecordError(f"the plan has {unknown[0]!r}; the triples are {', '.join(predicates)}")
    if empty := [number for number, fact in enumerate(facts, start=1) if not fact.text.strip()]:
        raise RecordError(f"fact {empty[0]} is empty")
    groups = [tuple(predicates[name] for name in fact.predicates or ()) for fact in facts]
    pieces = _own_pieces(record, annotated) or [fact.text for fact in facts]
    planned = sorted(predicate for group in groups for predicate in group)
    return Reference(
        "".join(pieces),
        tuple(Fact(piece, group) for piece, group in zip(pieces, groups, strict=True)),
        Plan(tuple(filter(None, groups))) if planned == sorted(record.predicates) else None,
    )


def _own_pieces(record: Record, annotated: Reference) -> tuple[str, ...] | None:
    """The record's raw text, segmented like `annotated`; None if there is none with the same letters and segments."""
    same = [reference.text for reference in record.references if letters(reference.text) == letters(annotated.text)]
    facts = [fact.text for fact in annotated.facts or ()]
    # Texts with the same letters may differ in punctuation: use the most similar one.
    for text in get_close_matches(annotated.text, same, 1, cutoff=0):
        pieces = attach_facts(text, facts)
        if pieces is not None and len(pieces) == len(facts):
            return pieces
    return None
