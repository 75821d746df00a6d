"""Precomputed frames: AllenNLP's JSON in a file, with one text per line.

A line is the list of a text's sentences, ``[{"words": [...], "verbs": [{"tags": [...], ...}]}, ...]``, in the format of
AllenNLP's ``SemanticRoleLabelerPredictor``. Texts are matched by their letters and digits, so a file of tokenised texts
also works for the raw texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from agggen.errors import AggGenError, CorpusError
from agggen.facts.frames import Frame, Sentence, parse_allennlp
from agggen.facts.words import align_words

_BRACKET = re.compile("-[LR][RSC]B-", re.IGNORECASE)
"""The Penn Treebank's escapes of brackets: the only letters that a tokeniser may add."""

_Parsed = list[tuple[tuple[str, ...], tuple[Frame, ...]]]


class PrecomputedFrames:
    """The frames of the texts in one file (a `SentenceSource`). Of several lines of a text, the first match is used.

    Raises:
        CorpusError: the file is missing, or a line is not a list of AllenNLP's sentences.
    """

    name = "precomputed"

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise CorpusError(f"{path}: cannot be read ({error.strerror}); it must have AllenNLP's JSON") from error
        self._sha256 = hashlib.sha256(content).hexdigest()
        self._lines: dict[str, list[tuple[int, _Parsed]]] = {}
        for number, line in enumerate(content.split(b"\n"), start=1):
            if line.strip():
                parsed = _parse(line, f"{path}:{number}")
                key = _letters("".join(word for words, _ in parsed for word in words))
                self._lines.setdefault(key, []).append((number, parsed))

    @property
    def fingerprint(self) -> str:
        return f"{self.name}-{self._sha256[:16]}"

    def sentences(self, texts: Sequence[str]) -> list[tuple[Sentence, ...]]:
        """The sentences of each text with the frames of its line; none for a blank text.

        Raises:
            AggGenError: no line has the text, or the line differs from it in more than whitespace, case, and kinds of
                quotes, brackets and dashes.
        """
        return [self._sentences(text) if text.strip() else () for text in texts]

    def _sentences(self, text: str) -> tuple[Sentence, ...]:
        lines = self._lines.get(_letters(text))
        if not lines:
            raise AggGenError(f"{self._path} has no frames for the text {text!r:.80}; add them first")
        misfit: AggGenError | None = None
        for number, parsed in lines:
            try:
                places = align_words(text, [words for words, _ in parsed], f"{self._path}:{number}")
            except AggGenError as error:
                misfit = misfit or error
            else:
                return tuple(Sentence(words, frames) for words, (_, frames) in zip(places, parsed, strict=True))
        assert misfit is not None
        raise misfit


def _parse(line: bytes, place: str) -> _Parsed:
    try:
        items = json.loads(line)
    except ValueError as error:
        raise CorpusError(f"{place}: not JSON ({error}); a line is the list of a text's sentences") from error
    if not isinstance(items, list):
        raise CorpusError(f"{place}: not a list; a line is the list of a text's sentences, even if there is only one")
    parsed: _Parsed = []
    for number, item in enumerate(items, start=1):
        try:
            parsed.append(parse_allennlp(item))
        except AggGenError as error:
            raise CorpusError(f"{place}: sentence {number}: {error}") from error
    return parsed


def _letters(text: str) -> str:
    return "".join(character for character in _BRACKET.sub("", text).casefold() if character.isalnum())
