"""Sentences with semantic roles, read from PropBank EWT's JSON lines (``train.jsonl.gz``, one sentence a line).

A predicate is what AllenNLP's predictor takes for one: a word whose universal part of speech is VERB or AUX. PropBank
also annotates nouns and adjectives (left out here) and leaves out modal verbs, which get a frame of their own with
nothing but the verb, as AllenNLP prints them.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError
from agggen.facts.tagger.decode import Role

FOLDER = "propbank_ewt"
"""Where the files lie below the data home."""
SPLITS = ("train", "dev", "test")
_DEPTHS = (-6, 4)
"""Changes of depth in the parse tree beyond these count as these."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """An annotated sentence; all tuples run over its words.

    `syntax` says of each word and the next where in the parse tree they meet: the change of depth against the word
    before and the label of their lowest common node (Gomez-Rodriguez and Vilares, 2018). None: not known.
    """

    words: tuple[str, ...]
    pos: tuple[str | None, ...]
    syntax: tuple[str | None, ...]
    predicates: tuple[bool, ...]
    roles: tuple[Role, ...]
    """At most one a predicate; a predicate that the annotators passed over has none."""


def read_split(data_home: Path | str, split: str) -> Iterator[Sentence | Reject]:
    """The sentences of a split (one of ``SPLITS``) below the data home; a line that is no sentence is a Reject.

    Raises:
        CorpusError: the file is missing or cannot be decompressed, or there is no such split.
    """
    if split not in SPLITS:
        raise CorpusError(f"PropBank EWT has no split {split!r}; there are {', '.join(SPLITS)}")
    yield from read_sentences(Path(data_home) / FOLDER / f"{split}.jsonl.gz")


def read_sentences(path: Path | str) -> Iterator[Sentence | Reject]:
    """The sentences of one file, and a Reject for each line that is none.

    Raises:
        CorpusError: the file is missing, or is no gzip file of UTF-8 text.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                try:
                    yield parse_sentence(json.loads(line))
                except (ValueError, KeyError, TypeError, IndexError) as error:
                    reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
                    yield Reject(str(path), number, None, f"no annotated sentence: {reason}")
    except FileNotFoundError as error:
        raise CorpusError(f"{path} is missing; the data home must hold {FOLDER}/{{train,dev,test}}.jsonl.gz") from error
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise CorpusError(f"cannot read {path}: {error}; it must be a gzip file of JSON lines in UTF-8") from error


def parse_sentence(data: dict[str, Any]) -> Sentence:
    """A sentence from one line's object (keys words, xpos, upos, parse, preds, frames).

    Raises:
        ValueError: the columns differ in length, a predicate lies outside, or tags are no valid BIO sequence.
        KeyError, TypeError, IndexError: a key or value is missing or of another kind.
    """
    words = tuple(data["words"])
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError("words must be a list of words, none of them empty")
    for key in ("xpos", "upos", "parse"):
        if len(data[key]) != len(words):
            raise ValueError(f"{len(words)} words but {len(data[key])} values of {key}")
    predicates = tuple(pos in ("VERB", "AUX") for pos in data["upos"])
    if len(data["preds"]) != len(data["frames"]):
        raise ValueError(f"{len(data['preds'])} predicates but {len(data['frames'])} frames")
    roles = {}
    for (index, *_), tags in zip(data["preds"], data["frames"], strict=True):
        if not 0 <= index < len(words) or len(tags) != len(words):
            raise ValueError(f"the frame of predicate {index} does not fit {len(words)} words")
        check_bio(tags)
        if predicates[index] and tags[index] == "B-V":  # not in the middle of a verb in pieces ("side - stepping")
            roles[index] = Role(index, tuple(tags))
    for index, pos in enumerate(data["xpos"]):
        if predicates[index] and pos == "MD" and index not in roles:
            roles[index] = Role(index, tuple("B-V" if at == index else "O" for at in range(len(words))))
    return Sentence(
        words,
        tuple(data["xpos"]),
        tuple(_syntax(data["parse"])),
        predicates,
        tuple(roles[index] for index in sorted(roles)),
    )


def check_bio(tags: Sequence[str]) -> None:
    """Passes if `tags` are a valid BIO sequence.

    Raises:
        ValueError: a tag is neither O, B-x nor I-x, or an I-x follows neither B-x nor I-x.
    """
    before = "O"
    for position, tag in enumerate(tags):
        if tag != "O" and (tag[:2] not in ("B-", "I-") or len(tag) < 3):
            raise ValueError(f"{tag!r} at word {position} is no BIO tag")
        if tag.startswith("I-") and before[2:] != tag[2:]:
            raise ValueError(f"{tag!r} at word {position} follows {before!r}")
        before = tag


def name_runs(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """The runs [begin, end) of proper nouns."""
    begin = None
    for index, pos in enumerate((*sentence.pos, None)):
        inside = pos is not None and pos.startswith("NNP")
        if inside and begin is None:
            begin = index
        elif not inside and begin is not None:
            yield begin, index
            begin = None


def _syntax(column: Sequence[str]) -> Iterator[str]:
    """One label a word from a parse in CoNLL's columns: ``(NP*``, ``*))``."""
    stack: list[str] = []
    depth = 0
    for part in column:
        opened, _, closed = part.partition("*")
        stack += [label.strip().split("-")[0].split("=")[0] for label in opened.split("(")[1:]]
        del stack[max(len(stack) - closed.count(")"), 0) :]
        change = max(_DEPTHS[0], min(_DEPTHS[1], len(stack) - depth))
        depth = len(stack)
        yield f"{change}|{stack[-1] if stack else 'END'}"
