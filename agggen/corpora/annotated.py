"""Human plans and alignments: the annotated WebNLG references published with the AggGen paper.

For 100 inputs of WebNLG's seen test set, crowd workers annotated which triples each fact of a reference verbalises
(paper, section "Human-annotated Alignments"); texts on which they disagreed are excluded. Line i of each file is about
text i::

    webnlg_ann_src.jsonl    the tokenised triples, then their predicates: triple TAB triple TAB leader|isPartOf
    rst_ann_gt_plan.jsonl   the triples of each fact: isPartOf&&leader||capital; empty for a fact without triples
    rst_ann_tgt.jsonl       the tokenised facts: tree TAB fact TAB fact

Records and raw texts come from WebNLG and are matched to these lines by their letters and digits. The release states no
licence, so users must copy the files themselves.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, pairwise
from pathlib import Path

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject, without_rejects
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Fact, Plan, Record, Reference

_LETTER = re.compile(r"[^\W_]")  # or digit
_CLOSING_MARKS = ",.;:!?)]}%"
SOURCES, PLANS, TEXTS = "webnlg_ann_src.jsonl", "rst_ann_gt_plan.jsonl", "rst_ann_tgt.jsonl"


def read_annotated(folder: Path | str, records: Iterable[Record | Reject]) -> Iterator[Record | Reject]:
    """The annotated records among `records`, in the order of the files, with their annotated texts as references.

    A reference is the record's raw text if it can be matched, or else the tokenised text of the release. Its facts have
    the annotated predicates; these groups are its plan if they contain each triple exactly once. An invalid row is a
    `Reject` of the file `PLANS`; a file that cannot be read, or another number of lines, is a CorpusError.
    """
    paths = [Path(folder) / name for name in (SOURCES, PLANS, TEXTS)]
    files: list[list[list[str]]] = []
    for path in paths:
        with open_source(path) as (stream, name):
            lines = (text.rstrip("\r\n") for _, text in without_rejects(read_lines(stream, name)))
            files.append([line.split("\t") for line in lines])
    sources, plans, texts = files
    if len({len(rows) for rows in files}) > 1:
        lengths = ", ".join(f"{path} has {len(rows)}" for path, rows in zip(paths, files, strict=True))
        raise CorpusError(f"{lengths} lines; they must have the same number of lines")
    record_of_key = {_key(_triple_texts(record)): record for record in records if isinstance(record, Record)}
    annotated_records: dict[str, tuple[Record, list[Reference]]] = {}
    for line, (source, plan, text) in enumerate(zip(sources, plans, texts, strict=True), start=1):
        record = record_of_key.get(_key(source[:-1]))
        if record is None:
            reason = f"no record of WebNLG has the triples {'; '.join(source[:-1])!r:.200}"
            yield Reject(str(paths[1]), line, None, reason)
            continue
        try:
            reference = _reference(record, source, plan[0], text[1:])
            annotated_records.setdefault(record.id, (record, []))[1].append(reference)
        except AggGenError as error:
            yield Reject(str(paths[1]), line, record.id, str(error))
    for record, references in annotated_records.values():
        yield replace(record, references=tuple(references))


def _triple_texts(record: Record) -> list[str]:
    return [f"{triple.subject} {triple.predicate} {triple.object}" for triple in record.triples]


def _key(triples: Iterable[str]) -> tuple[str, ...]:
    """A key of triples, independent of their order and tokenisation."""
    return tuple(sorted(alnum(text) for text in triples))


def _predicates(record: Record, source: list[str]) -> dict[str, str]:
    """The record's predicates by their names in the annotation, such as ``was_a_crew_member_of``."""
    *triples, names = source
    annotated_names = names.split("|")
    if (count := len(set(annotated_names))) != len(triples):
        raise RecordError(f"{len(triples)} triples but {count} predicates in the last column of {SOURCES}")
    record_predicates: dict[str, list[str]] = {}
    for text, predicate in zip(_triple_texts(record), record.predicates, strict=True):
        record_predicates.setdefault(alnum(text), []).append(predicate)
    return {name: record_predicates[alnum(text)].pop(0) for name, text in zip(annotated_names, triples, strict=True)}


def _reference(record: Record, source: list[str], plan: str, facts: list[str]) -> Reference:
    """The text of the tokenised `facts` as a reference of `record`, with its raw text and predicates if possible."""
    named_groups = [[name for name in group.split("&&") if name] for group in plan.split("|")]
    if len(named_groups) != len(facts):
        raise RecordError(f"the plan has {len(named_groups)} groups for {len(facts)} facts")
    predicates = _predicates(record, source)
    if unknown := sorted({name for group in named_groups for name in group} - predicates.keys()):
        raise RecordError(f"the plan has {unknown[0]!r}; the predicates are {', '.join(predicates)}")
    if empty := [number for number, fact in enumerate(facts, start=1) if not fact.strip()]:
        raise RecordError(f"fact {empty[0]} is empty")
    groups = [tuple(predicates[name] for name in group) for group in named_groups]
    facts = [fact.strip() + " " for fact in facts[:-1]] + [facts[-1].strip()]
    pieces = _raw_pieces(record, facts) or facts
    is_complete = sorted(chain(*groups)) == sorted(record.predicates)
    plan_of_text = Plan(tuple(filter(None, groups))) if is_complete else None
    return Reference("".join(pieces), tuple(map(Fact, pieces, groups)), plan_of_text)


def _raw_pieces(record: Record, facts: list[str]) -> tuple[str, ...] | None:
    """The facts of the record's raw text with the same letters and digits as `facts`; None if no text has them."""
    tokenised = "".join(facts)
    matches = [reference.text for reference in record.references if alnum(reference.text) == alnum(tokenised)]
    # Texts with the same letters and digits may differ in punctuation: use the most similar text.
    for text in get_close_matches(tokenised, matches, 1, cutoff=0):
        pieces = attach_facts(text, facts)
        if all(piece.strip() for piece in pieces):
            return pieces
    return None


def attach_facts(text: str, facts: Sequence[str]) -> tuple[str, ...]:
    """Segments the raw `text` like the tokenised `facts`, which have the same letters and digits.

    The segments concatenate exactly to `text`. Whitespace and closing punctuation at a boundary belong to the segment
    before it.
    """
    boundaries = [0]
    position = 0
    for fact in facts[:-1]:
        n_letters = len(alnum(fact))
        marks_at_end = _LETTER.split(fact.replace("``", '"').replace("''", '"'))[-1]
        n_marks = len("".join(marks_at_end.split()))
        while n_letters > 0:
            n_letters -= len(alnum(text[position]))
            position += 1
        while position < len(text) and not alnum(text[position]):
            if not text[position].isspace():
                if n_marks <= 0 and text[position] not in _CLOSING_MARKS:
                    break
                n_marks -= 1
            position += 1
        boundaries.append(position)
    return tuple(text[start:end] for start, end in pairwise([*boundaries, len(text)]))


def alnum(text: str) -> str:
    """The letters and digits of `text` in lower case, which tokenisers do not change."""
    return "".join(character for character in text.casefold() if character.isalnum())
