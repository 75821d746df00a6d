"""Plans that people read out of texts: the annotated WebNLG references published with the AggGen paper.

For 100 inputs of WebNLG's seen test set, crowd workers said which triples each fact of a reference verbalises (paper,
section "Human-annotated Alignments"); kept are the texts on which they agree. Line i of three files belongs to text i::

    webnlg_ann_src.jsonl    the triples, tokenised, and last their predicates: triple TAB triple TAB leader|isPartOf
    rst_ann_gt_plan.jsonl   the triples of each fact: isPartOf&&leader||capital; an empty slot is a fact without any
    rst_ann_tgt.jsonl       the facts, tokenised: tree TAB fact TAB fact

Records and texts are WebNLG's own, found by their letters. The release states no licence: it is read where a user has
it, never shipped.
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
    """The annotated ones of `records`, in the order of the files, each with one reference an annotated text.

    A reference is the record's own text where it has it, else the release's tokenised one. Its facts name the triples
    that people found in them; they are its plan where they name every triple exactly once. A row that cannot be used
    is a reject of the file of plans.

    Raises:
        CorpusError: a file is missing or empty, or they differ in length.
    """
    paths = [Path(folder) / name for name in (SOURCES, PLANS, TEXTS)]
    sources, plans, texts = files = [[columns for _, columns in tab_separated(path)] for path in paths]
    if len({len(rows) for rows in files}) > 1:
        lengths = ", ".join(f"{path} has {len(rows)}" for path, rows in zip(paths, files, strict=True))
        raise CorpusError(f"{lengths} lines; they must correspond")
    known = {_key(_texts_of(record)): record for record in records if isinstance(record, Record)}
    found: dict[str, tuple[Record, list[Reference]]] = {}
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
        found.setdefault(record.id, (record, []))[1].append(reference)
    for record, references in found.values():
        yield replace(record, references=tuple(references))


def _texts_of(record: Record) -> list[str]:
    return [f"{triple.subject} {triple.predicate} {triple.object}" for triple in record.triples]


def _key(triples: Iterable[str]) -> tuple[str, ...]:
    """The same for the same triples, in any order and however tokenised."""
    return tuple(sorted(letters(text) for text in triples))


def _predicates(record: Record, source: list[str]) -> dict[str, str]:
    """The record's predicates by the names that the annotation has for them (``was_a_crew_member_of``)."""
    *triples, names = source
    theirs = names.split("|")
    if len(set(theirs)) != len(triples):
        raise RecordError(f"{len(triples)} triples but {len(set(theirs))} predicates in the last column of {SOURCES}")
    ours: dict[str, list[str]] = {}
    for text, predicate in zip(_texts_of(record), record.predicates, strict=True):
        ours.setdefault(letters(text), []).append(predicate)
    return {name: ours[letters(text)].pop(0) for name, text in zip(theirs, triples, strict=True)}


def _reference(record: Record, annotated: Reference, predicates: dict[str, str]) -> Reference:
    """`annotated` as a text of `record`, in its words and with its predicates."""
    facts = annotated.facts or ()
    if unknown := sorted({name for fact in facts for name in fact.predicates or ()} - set(predicates)):
        raise RecordError(f"the plan names {unknown[0]!r}; the triples are {', '.join(predicates)}")
    if empty := [number for number, fact in enumerate(facts, start=1) if not fact.text.strip()]:
        raise RecordError(f"fact {empty[0]} is empty")
    groups = [tuple(predicates[name] for name in fact.predicates or ()) for fact in facts]
    pieces = _own_pieces(record, annotated) or [fact.text for fact in facts]
    said = sorted(predicate for group in groups for predicate in group)
    return Reference(
        "".join(pieces),
        tuple(Fact(piece, group) for piece, group in zip(pieces, groups, strict=True)),
        Plan(tuple(filter(None, groups))) if said == sorted(record.predicates) else None,
    )


def _own_pieces(record: Record, annotated: Reference) -> tuple[str, ...] | None:
    """The record's own text, cut where `annotated` is; None where it has none of these letters or cuts elsewhere."""
    same = [reference.text for reference in record.references if letters(reference.text) == letters(annotated.text)]
    facts = [fact.text for fact in annotated.facts or ()]
    # Texts of the same letters differ by a comma: the most similar one is meant.
    for text in get_close_matches(annotated.text, same, 1, cutoff=0):
        pieces = attach_facts(text, facts)
        if pieces is not None and len(pieces) == len(facts):
            return pieces
    return None
