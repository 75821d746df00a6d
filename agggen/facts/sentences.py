"""Segmentation into sentences by rules: at ``.``, ``!`` or ``?`` before a word that can begin a sentence.

A full stop does not end a sentence after a title or abbreviation ("Dr.", "St."), after an initial ("J. R. R. Tolkien"),
within dotted initials unless a frequent sentence opener follows ("the U.S. Navy", but "in the U.S. It ..."), or within
a number.
"""

import re
from collections.abc import Iterator

from agggen.facts import RuleSegmenter

# After these titles and abbreviations, a capital letter does not indicate a new sentence.
_TITLES = (
    "Mr Mrs Ms Dr Prof St Ste Mt Ft Gen Col Lt Sgt Capt Cmdr Adm Gov Sen Rep Rev Hon Pres Jr Sr vs "
    "approx ca cf al Fig Trans Inf Syst Admin Sci Abh Math Phys Chem Proc Univ Semin"
)
_ABBREVIATIONS_BEFORE_NUMBERS = "No Nos Vol Op pp p"
# Words that begin a new sentence after dotted initials.
_OPENERS = (
    "The This That These Those It Its It's He She His Her They Their There In On At One Another As With From "
    "Where Which Who While Although However Also And But A An"
)
_END = r"[.!?]+[\"'\u201d\u2019)\]]*"
_BOUNDARY = (
    rf"(?P<end>{_END})\s+(?=[\"'\u201c\u2018(\[]*[A-Z\u00c0-\u00de0-9])"
    r"|(?<=[a-z0-9)])(?P<glued>\.)(?=(?:The|It|He|She|They|Its|There)\s)"  # "... in 1990.It has ..."
)

_SENTENCE_END = re.compile(_BOUNDARY)
_TITLE = re.compile(rf"(?<![\w.])(?:{'|'.join(_TITLES.split())})$")
_ABBREVIATION_BEFORE_NUMBER = re.compile(rf"(?<![\w.])(?:{'|'.join(_ABBREVIATIONS_BEFORE_NUMBERS.split())})$")
_INITIAL = re.compile(r"(?<![\w'])[A-Z\u00c0-\u00de]$")
_DOTTED_INITIALS = re.compile(r"(?:\b[A-Za-z]\.){1,}\s?[A-Za-z]$")
_OPENER = re.compile(rf"[\"'(\[]*(?:{'|'.join(_OPENERS.split())})\b")


def sentence_starts(text: str) -> Iterator[int]:
    """The offsets at which the second and later sentences of `text` begin."""
    for match in _SENTENCE_END.finditer(text):
        if match["glued"] or match["end"][0] != "." or _ends_a_sentence(text, match.start("end"), match.end()):
            yield match.end()


def _ends_a_sentence(text: str, stop: int, following: int) -> bool:
    """Whether the full stop at `stop` ends a sentence; `following` is the offset of the next word."""
    preceding = text[max(0, stop - 24) : stop]
    if _TITLE.search(preceding) or (text[following].isdigit() and _ABBREVIATION_BEFORE_NUMBER.search(preceding)):
        return False
    if _INITIAL.search(preceding) or _DOTTED_INITIALS.search(preceding):
        return _OPENER.match(text, following) is not None
    return True


class SentenceSegmenter(RuleSegmenter):
    """A segmenter with one fact per sentence."""

    name = "sentences"
    rules = (_BOUNDARY, _TITLES, _ABBREVIATIONS_BEFORE_NUMBERS, _OPENERS, _INITIAL.pattern, _DOTTED_INITIALS.pattern)
    starts = staticmethod(sentence_starts)
