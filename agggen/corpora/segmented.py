"""The segmentation and rule-based alignment published with the AggGen paper.

`attach_release_facts` transfers the fact boundaries to the raw reference texts of a corpus, so that the facts
concatenate exactly to the raw text. The release states no licence, so users must copy it themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher, get_close_matches
from itertools import pairwise
from pathlib import Path

from agggen.corpora.lines import open_source, read_lines
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError, RecordError
from agggen.records import Fact, Record, Reference

_MARKS = {
    '"': "\u201c\u201d\u201e",
    "'": "\u2018\u2019`",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
}  # quotes, dashes
_SIMILAR = 0.85  # minimum similarity of texts from which the segmenter dropped or moved words
_SAME = str.maketrans({mark: plain for plain, marks in _MARKS.items() for mark in marks})
_CLOSERS = ",.;:!?)]}%"
_FILES = {
    ("webnlg", "train"): ("webnlg/webnlg_train_tgt.jsonl",),
    ("webnlg", "dev"): ("webnlg/webnlg_dev_tgt.jsonl",),
    ("webnlg", "test-seen"): tuple(f"webnlg/webnlg_test-seen_{number}_tgt.jsonl" for number in range(3)),
    # Cleaning changed meaning representations, not texts; the cleaned set has most of the original training texts.
    ("e2e", "train"): ("e2e_cleaned/e2e_train_tgt.facts_only.jsonl",),
    ("e2e", "dev"): ("e2e/e2e_dev_tgt.jsonl",),
    ("e2e-cleaned", "train"): ("e2e_cleaned/e2e_train_tgt.facts_only.jsonl",),
    ("e2e-cleaned", "dev"): ("e2e_cleaned/e2e_dev_tgt.jsonl",),
}


def release_facts(data_home: Path | str, corpus: str, split: str) -> list[tuple[str, ...]]:
    """The released facts (tokenised) of each text of `split`; empty texts are skipped.

    Raises:
        CorpusError: the release has no facts for this split, or its file is missing.
    """
    if (corpus, split) not in _FILES:
        have = ", ".join(f"{name} {part}" for name, part in _FILES)
        raise CorpusError(f"the release has no facts for {corpus} {split}; it has {have}")
    folder = Path(data_home) / "agggen_release" / "aligned"
    facts: list[tuple[str, ...]] = []
    for name in _FILES[corpus, split]:
        if not (folder / name).exists():
            raise CorpusError(f"{folder / name} is missing; released facts cannot be downloaded: copy data-alg there")
        for _, columns in tab_separated(folder / name):
            texts = tuple(text.strip() for text in (columns if "facts_only" in name else columns[2:]) if text.strip())
            if texts:
                facts.append(texts)
    return facts


def attach_release_facts(records: Sequence[Record], facts: Sequence[Sequence[str]]) -> tuple[list[Record], int]:
    """`records` with the facts of the release, and the number of references without any.

    Texts are matched by their letters and digits, since tokenisers change whitespace, quotes and dashes; the few texts
    from which the segmenter dropped words are matched by similarity. References without a match are not changed.
    """
    by_letters = {letters("".join(item)): tuple(item) for item in facts}
    needed = {letters(reference.text) for record in records for reference in record.references}
    unused = [key for key in by_letters if key not in needed]
    missing = 0
    result: list[Record] = []
    for record in records:
        references: list[Reference] = []
        for reference in record.references:
            key = letters(reference.text)
            if key not in by_letters and (close := get_close_matches(key, unused, 1, _SIMILAR)):
                key = close[0]
            texts = attach_facts(reference.text, by_letters[key]) if key in by_letters else None
            if texts is None:
                missing += 1
                references.append(reference)
            else:
                references.append(replace(reference, facts=tuple(Fact(text) for text in texts)))
        result.append(replace(record, references=tuple(references)))
    return result, missing


def attach_facts(text: str, facts: Sequence[str]) -> tuple[str, ...] | None:
    """Segments the raw `text` like the tokenised `facts`; the segments concatenate exactly to `text`.

    Whitespace at a boundary belongs to the segment before it; kinds of quotes and dashes are ignored. If other
    characters differ, boundaries are transferred by a character alignment and moved to the beginning of a word.

    Returns:
        The pieces, or None if the two are not the same text (less than 85 % of the characters alike).
    """
    raw = [position for position, character in enumerate(text) if not character.isspace()]
    # Only whole tokens are Penn Treebank quotes: in the raw text one character must stay one character.
    solid = ["".join('"' if token in ("``", "''") else token for token in fact.split()) for fact in facts]
    solid = [fact.translate(_SAME) for fact in solid if fact]
    if not raw or not solid:
        return None
    ends: list[int] = []
    for fact in solid[:-1]:
        ends.append(len(fact) + (ends[-1] if ends else 0))
    theirs, ours = "".join(solid), "".join(text[position] for position in raw).translate(_SAME)
    if theirs != ours:
        mapped = _carry(ends, theirs, ours, [later - earlier > 1 for earlier, later in pairwise(raw)])
        if mapped is None:
            return None
        ends = mapped
    cuts = [0, *(raw[end] for end in ends), len(text)]
    return tuple(text[start:end] for start, end in pairwise(cuts))


def _carry(ends: list[int], theirs: str, ours: str, space_after: list[bool]) -> list[int] | None:
    """The positions in `ours` of the boundaries in `theirs` (both without whitespace); None if too different."""
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    if matcher.ratio() < _SIMILAR:
        return None
    carried: list[int] = []
    for end in ends:
        # The last aligned character before the boundary; dropped closing punctuation belongs to it.
        block = max((b for b in matcher.get_matching_blocks() if b.a < end), key=lambda b: b.a, default=None)
        if block is None or not block.size:
            continue
        position = block.b + min(end - block.a, block.size)
        while position < len(ours) and ours[position] in _CLOSERS and theirs[end : end + 1] != ours[position]:
            position += 1
        while 0 < position < len(ours) and not space_after[position - 1] and ours[position - 1 :][:2].isalnum():
            position -= 1
        if (carried[-1] if carried else 0) < position < len(ours):
            carried.append(position)
    return carried


def letters(text: str) -> str:
    """The letters and digits of `text` in lower case, which tokenisers do not change."""
    return "".join(character for character in text.casefold() if character.isalnum())


def aligned_reference(columns: Sequence[str]) -> Reference:
    """The tokenised text of a row ``tree, plan, fact, fact, ...`` with its facts and their predicates.

    Raises:
        RecordError: a column is missing, or the numbers of groups and facts differ.
    """
    if len(columns) < 3:
        raise RecordError("needs a tree, a plan and at least one fact, separated by tabs")
    _, plan, *facts = columns
    slots = plan.split("|")
    if len(slots) != len(facts):
        raise RecordError(f"the plan has {len(slots)} groups for {len(facts)} facts")
    spaced = [fact.strip() + " " for fact in facts[:-1]] + [facts[-1].strip()]
    return Reference(
        "".join(spaced),
        tuple(
            Fact(text, tuple(name for name in slot.split("&&") if name))
            for text, slot in zip(spaced, slots, strict=True)
        ),
    )


def tab_separated(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number (from 1) and columns of each line of a file.

    Raises:
        CorpusError: the file is missing, empty or not UTF-8, or a line cannot be read.
    """
    with open_source(path) as (stream, name):
        for item in read_lines(stream, name):
            if isinstance(item, Reject):
                raise CorpusError(str(item))
            number, text = item
            yield number, text.rstrip("\r\n").split("\t")
