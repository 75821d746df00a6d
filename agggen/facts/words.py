"""Rule-based tokenisation with offsets, as in English treebanks.

Clitics (``'s``, ``n't``), punctuation and hyphens are separate words; numbers with inner points and dotted initials
(``U.S.``, ``A.F.C``) are one word.
"""

import re
from itertools import pairwise

from agggen.facts.frames import Tokens
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
_WORD = re.compile(_WORD_RULES, re.VERBOSE | re.IGNORECASE)
RULES = f"1 {_WORD_RULES}"
"""Part of segmenters' fingerprints; increase the number when the code of this module changes."""


def split_sentences(text: str) -> tuple[Tokens, ...]:
    """The words of each sentence (``agggen.facts.sentences``); each visible character is in exactly one word."""
    edges = pairwise((0, *sentence_starts(text), len(text)))
    sentences = (list(_WORD.finditer(text, start, end)) for start, end in edges)
    return tuple(
        Tokens(tuple(match.group() for match in matches), tuple(match.span() for match in matches))
        for matches in sentences
        if matches
    )
