"""Words with offsets: tokenisation by rules, and alignment of another tokeniser's words with the text.

`split_words` tokenises like English treebanks: clitics (``'s``, ``n't``), punctuation and hyphens are separate words;
numbers with inner points and dotted initials (``U.S.``, ``A.F.C``) are one. `align_words` finds the offsets of given
words in a text, in which the tokeniser may have changed quotes, brackets and dashes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from agggen.errors import AggGenError
from agggen.facts.frames import Words
from agggen.facts.sentences import sentence_starts

_APOSTROPHE = "['\u2019]"
_WORD_RULES = rf"""
    \d+ (?:[.,:/]\d+)+ (?![\w])               # 3,800.5  10:30  18/36
  | (?:[^\W\d_]\.){{2,}} [^\W\d_]? (?!\w)     # U.S.  A.F.C
  | n{_APOSTROPHE}t (?!\w)
  | {_APOSTROPHE} (?:s|re|ve|ll|d|m) (?!\w)
  | \w+? (?= n{_APOSTROPHE}t (?!\w) )
  | [\w\u0300-\u036f]+ (?: {_APOSTROPHE} (?! (?:s|re|ve|ll|d|m) (?!\w) ) \w+ )?    # O'Brien
  | \.{{2,}} | -{{2,}}
  | \S
"""
_FIND = re.compile(_WORD_RULES, re.VERBOSE | re.IGNORECASE)
RULES = f"1 {_WORD_RULES}"

# Double quotes as two single ones, so that Penn Treebank's `` and '' equal ".
_DOUBLE = dict.fromkeys('"\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb', "''")
_SINGLE = dict.fromkeys("'`\u2018\u2019\u201a\u201b\u2032\u00b4", "'")
_DASH = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
_SAME = {**_DOUBLE, **_SINGLE, **_DASH}
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "--": "-"}
"""The Penn Treebank's escapes of brackets and dashes."""


def split_sentences(text: str) -> tuple[Words, ...]:
    """The words of each sentence (``agggen.facts.sentences``); each visible character is in exactly one."""
    edges = (0, *sentence_starts(text), len(text))
    sentences = (split_words(text, start, end) for start, end in pairwise(edges))
    return tuple(words for words in sentences if words.words)


def split_words(text: str, start: int = 0, end: int | None = None) -> Words:
    """The words of text[start:end], with offsets in the whole text."""
    matches = list(_FIND.finditer(text, start, len(text) if end is None else end))
    return Words(tuple(match.group() for match in matches), tuple(match.span() for match in matches))


def align_words(text: str, sentences: Sequence[Sequence[str]], name: str) -> tuple[Words, ...]:
    """Finds the offsets of the words of all sentences in a text; each visible character is in exactly one word.

    Whitespace, case, Unicode normal form, and kinds of quotes and dashes may differ, and words may be escaped as in the
    Penn Treebank (``-LRB-``, `````, ``''``, ``\\/``).

    Args:
        name: the text's id or file and line, for messages.

    Raises:
        AggGenError: the words are not those of the text.
    """
    units = [(unit, index) for index, character in enumerate(text) for unit in _fold(character)]
    letters = "".join(unit for unit, _ in units)
    position = 0
    result: list[Words] = []
    for number, words in enumerate(sentences, start=1):
        spans: list[tuple[int, int]] = []
        for word in words:
            length = _fits(word, letters, position)
            last = position + length
            if not length or (last < len(units) and units[last][1] == units[last - 1][1]):
                offset = units[position][1] if position < len(units) else len(text)
                raise AggGenError(
                    f"{name}: the word {word!r} of sentence {number} is not in the text, which continues with "
                    f"{text[offset : offset + 30]!r}; the frames must be of this text"
                )
            spans.append((units[position][1], units[last - 1][1] + 1))
            position = last
        result.append(Words(tuple(words), tuple(spans)))
    if position < len(units):
        remainder = text[units[position][1] :]
        raise AggGenError(f"{name}: the words end before the text, which continues with {remainder[:30]!r}")
    return tuple(result)


def _fits(word: str, letters: str, position: int) -> int:
    """The number of folded characters at `position` that match the word; 0 without a match."""
    for form in _forms(word):
        if letters.startswith(form, position):
            return len(form)
    return 0


@lru_cache(maxsize=1 << 14)
def _forms(word: str) -> tuple[str, ...]:
    """The folded forms that a word may have in the text, the most likely first."""
    written = (word, _ESCAPES.get(word.upper(), word), word.replace("\\/", "/").replace("\\*", "*"))
    folded = dict.fromkeys("".join(unit for character in form for unit in _fold(character)) for form in written)
    return tuple(form for form in folded if form)


@lru_cache(maxsize=1 << 12)
def _fold(character: str) -> str:
    """A character in the form that is compared; empty for whitespace and invisible marks."""
    if character in _SAME:
        return _SAME[character]
    return "".join(_visible(unicodedata.normalize("NFKD", character).casefold()))


def _visible(characters: str) -> Iterator[str]:
    for character in characters:
        if not character.isspace() and unicodedata.category(character) not in ("Cf", "Cc"):
            yield character
