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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches
from itertools import accumulate, chain, pairwise
from pathlib import Path

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject, without_rejects
from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.records import Fact, Plan, Record, Reference

_TO_ASCII = str.maketrans(
    "\u201c\u201d\u201e\u2018\u2019`\u2010\u2011\u2012\u2013\u2014\u2212", '"' * 3 + "'" * 3 + "-" * 6
)
"""Maps variants of quotes and dashes to ASCII."""
_MIN_SIMILARITY = 0.85  # of raw and tokenised text, since the authors' segmenter dropped or moved some words
_CLOSING_MARKS = ",.;:!?)]}%"
SOURCES, PLANS, TEXTS = "webnlg_ann_src.jsonl", "rst_ann_gt_plan.jsonl", "rst_ann_tgt.jsonl"


def read_annotated(folder: Path | str, records: Iterable[Record | Reject]) -> Iterator[Record | Reject]:
    """The annotated records among `records`, in the order of the files, with their annotated texts as references.

    A reference is the record's raw text if it can be matched, or else the tokenised text of the release. Its facts have
    the annotated predicates; these groups are its plan if they contain each triple exactly once. An invalid row is a
    `Reject` of the file `PLANS`; a file that cannot be read, or another number of lines, is a CorpusError.
    """
    paths = [Path(folder) / name for name in (SOURCES, PLANS, TEXTS)]
    sources, plans, texts = files = [list(_tab_separated_lines(path)) for path in paths]
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
    """The facts of the record's raw text with the same letters and digits as `facts`; None if there is no such text."""
    tokenised = "".join(facts)
    matches = [reference.text for reference in record.references if alnum(reference.text) == alnum(tokenised)]
    # Texts with the same letters and digits may differ in punctuation: use the most similar text.
    for text in get_close_matches(tokenised, matches, 1, cutoff=0):
        pieces = attach_facts(text, facts)
        if pieces is not None and len(pieces) == len(facts):
            return pieces
    return None


def attach_facts(text: str, facts: Sequence[str]) -> tuple[str, ...] | None:
    """Segments the raw `text` like the tokenised `facts`; the segments concatenate exactly to `text`.

    Whitespace at a boundary belongs to the segment before it. Variants of quotes and dashes count as equal. If other
    characters differ, boundaries are transferred by a character alignment and moved to the beginning of a word; None if
    the similarity of `text` and `facts` is below `_MIN_SIMILARITY`.
    """
    positions = [position for position, character in enumerate(text) if not character.isspace()]
    # Penn Treebank quotes are replaced only as complete tokens; in the raw text, offsets must not change.
    compact_facts = ["".join('"' if token in ("``", "''") else token for token in fact.split()) for fact in facts]
    compact_facts = [fact.translate(_TO_ASCII) for fact in compact_facts if fact]
    if not positions or not compact_facts:
        return None
    ends = list(accumulate(map(len, compact_facts[:-1])))
    tokenised, raw = "".join(compact_facts), "".join(text[position] for position in positions).translate(_TO_ASCII)
    if tokenised != raw:
        space_after = [later - earlier > 1 for earlier, later in pairwise(positions)]
        raw_ends = _map_boundaries(ends, tokenised, raw, space_after)
        if raw_ends is None:
            return None
        ends = raw_ends
    boundaries = [0, *(positions[end] for end in ends), len(text)]
    return tuple(text[start:end] for start, end in pairwise(boundaries))


def _map_boundaries(ends: list[int], tokenised: str, raw: str, space_after: list[bool]) -> list[int] | None:
    """The positions in `raw` of the boundaries in `tokenised`, without whitespace; None if too dissimilar."""
    matcher = SequenceMatcher(None, tokenised, raw, autojunk=False)
    if matcher.ratio() < _MIN_SIMILARITY:
        return None
    raw_ends: list[int] = []
    for end in ends:
        # The boundary is after the last aligned character and after closing punctuation that the segmenter dropped.
        blocks = [block for block in matcher.get_matching_blocks() if block.size and block.a < end]
        if not blocks:
            continue
        last = blocks[-1]
        position = last.b + min(end - last.a, last.size)
        while position < len(raw) and raw[position] in _CLOSING_MARKS and tokenised[end : end + 1] != raw[position]:
            position += 1
        while 0 < position < len(raw) and not space_after[position - 1] and raw[position - 1 :][:2].isalnum():
            position -= 1
        if (raw_ends[-1] if raw_ends else 0) < position < len(raw):
            raw_ends.append(position)
    return raw_ends


def alnum(text: str) -> str:
    """The letters and digits of `text` in lower case, which tokenisers do not change."""
    return "".join(character for character in text.casefold() if character.isalnum())


def _tab_separated_lines(path: Path) -> Iterator[list[str]]:
    with open_source(path) as (stream, name):
        for _, text in without_rejects(read_lines(stream, name)):
            yield text.rstrip("\r\n").split("\t")
