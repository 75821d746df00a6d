"""Segmentation into sentences and clauses by rules, without semantic roles.

A sentence ends at ``.``, ``!`` or ``?`` before a word that can begin a sentence. A full stop does not end a sentence
after a title or abbreviation ("Dr.", "St."), after an initial ("J. R. R. Tolkien"), within dotted initials unless a
frequent sentence opener follows ("the U.S. Navy", but "in the U.S. It ..."), or within a number.

Within a sentence a new fact starts at a word that begins a clause (a relative pronoun, a conjunction before a verb or
before a subject with a verb, a participle with its complement, ...) if the current fact already has a verb. In "Bolt,
who was drawn by Gary Cohn, | is a comic character | and was published in 1990", the noun and its relative clause form
one fact, like the facts that the paper derives from semantic roles.

Precision and recall of boundaries against the facts released with the paper, on the development texts used to write the
rules: WebNLG P .91 R .80 (P .89 R .80 on tokenised texts), E2E P .91 R .76.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

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


_VERBS = (
    "is are was were has have had isn't aren't wasn't weren't hasn't haven't doesn't don't didn't can could will would "
    "may might should must cannot can't does do did it's they're there's he's she's that's you'll "
    "serves serve offers offer provides provide sells sell boasts features comes come originates originate "
    "contains contain includes include lies sits stands belongs uses use requires gets get receives earns caters "
    "charges costs plays play runs run leads lead owns bears became began won went made wrote died led held fought "
    "left graduated retired joined served played worked competed competes participated attended received published "
    "originated starred appeared spoke speaks welcomes allows makes goes ranges rates borders consists houses operates "
    "manages covers represents follows precedes carries describes employs weighs measures passed hails "
    "specializes specialises looks seems remains deals works lives taught teaches studied wants try enjoy visit"
)
_PARTICIPLES = (
    "located situated found based served made written built designed created published operated owned known led played "
    "spoken killed cooked established founded headed rated used produced manufactured headquartered "
    "constructed completed eaten released broadcast governed bordered surrounded dedicated preceded followed born "
    "managed run recruited affiliated priced nicknamed held awarded"
)
_GERUNDS = "serving providing offering selling featuring boasting specializing specialising having being making using"
_SUBJECTS = "it it's they he she this these there its their his her we you i one another both"
_RELATIVES = "which where who whose whom"
_CONJUNCTIONS = "but while whilst although though however whereas because"
_CONJUNCTIONS_AFTER_COMMA = "since if when plus then so yet"

_AUXILIARIES = "is are was were be been being has have had get gets got not also and or"
_PREPOSITIONS = "by in at on near to for from as of within with next along beside close under between"
_ADVERBS = "also now not currently previously later then once only still formerly originally"

_RULES = (
    *(_VERBS, _PARTICIPLES, _GERUNDS, _SUBJECTS, _RELATIVES, _CONJUNCTIONS, _CONJUNCTIONS_AFTER_COMMA),
    *(_AUXILIARIES, _PREPOSITIONS, _ADVERBS),
)
_VERB, _PARTICIPLE, _GERUND, _SUBJECT, _RELATIVE, _CONJUNCTION, _AFTER_COMMA, _AUXILIARY, _PREPOSITION, _ADVERB = (
    frozenset(rule.split()) for rule in _RULES
)
_WORD = re.compile(r"\S+")
_PUNCTUATION = ".,;:!?\"'()[]\u201c\u201d\u2018\u2019"
_VERB_WINDOW = 9  # number of words after "and" in which a verb indicates a coordinated clause
VERSION = "1"  # part of the fingerprint; increase it when the code of the rules changes


class ClauseSegmenter(RuleSegmenter):
    """A segmenter with one fact per clause, by surface rules for English."""

    name = "clauses"
    rules = (SentenceSegmenter().fingerprint, VERSION, *_RULES)

    def starts(self, text: str) -> Iterator[int]:
        for begin, end in pairwise((0, *sentence_starts(text), len(text))):
            yield end
            yield from _clause_starts(text, begin, end)


def _clause_starts(text: str, begin: int, end: int) -> Iterator[int]:
    """The offsets within one sentence, text[begin:end], at which its second and later facts begin."""
    spans = [match.span() for match in _WORD.finditer(text, begin, end)]
    raw_words = [text[start:stop] for start, stop in spans]
    words = [word.strip(_PUNCTUATION).replace("\u2019", "'") for word in raw_words]
    has_verb = False
    n_words = 0
    for index, word in enumerate(words):
        if has_verb and n_words >= 2 and index + 1 < len(words) and _opens_clause(raw_words, words, index):
            yield spans[index][0]
            has_verb, n_words = False, 0
        has_verb = has_verb or word.lower() in _VERB or _is_participle(words, index) or word.lower() in _GERUND
        n_words += 1


def _is_participle(words: Sequence[str], index: int) -> bool:
    """Whether a word is a participle with a complement ("built in 1990"), so that it forms a fact."""
    following = words[index + 1].lower() if index + 1 < len(words) else ""
    return words[index] in _PARTICIPLE and following in _PREPOSITION


def _opens_clause(raw_words: Sequence[str], words: Sequence[str], index: int) -> bool:
    """Whether the word at `index` begins a clause, given that the current fact has a verb."""
    word, lower_word = words[index], words[index].lower()
    previous, raw_previous = words[index - 1].lower(), raw_words[index - 1]
    is_after_comma = raw_previous.endswith((",", ";", ":", "\u2013")) or raw_previous in ("-", "\u2013", "--")
    if raw_previous.endswith(";"):
        return True
    if lower_word in _RELATIVE:
        return previous not in _PREPOSITION
    if lower_word == "that":
        return _is_verb(words, index + 1) and previous not in ("is", "was")
    if lower_word == "and":
        return _opens_coordinated_clause(words, index + 1)
    if lower_word in _CONJUNCTION:
        return True
    if lower_word in _AFTER_COMMA:
        return is_after_comma
    is_capitalised = word[:1].isupper() and word != "I"
    if lower_word in _SUBJECT and (is_after_comma or (is_capitalised and previous not in _AUXILIARY)):
        return _has_verb_within(words, index, 5)
    if is_after_comma and lower_word in _VERB:
        return True
    if lower_word in _GERUND:
        return previous not in _AUXILIARY and previous not in _PREPOSITION
    if word in _PARTICIPLE and previous not in _AUXILIARY and not previous.endswith("ly") and not is_after_comma:
        return _is_participle(words, index) and previous not in _ADVERB
    return False


def _opens_coordinated_clause(words: Sequence[str], index: int) -> bool:
    """Whether the words from `index`, after "and", begin a clause or verb phrase, not a coordinated noun."""
    lower_word = words[index].lower()
    if _is_verb(words, index) or lower_word in _RELATIVE or words[index] in _PARTICIPLE or words[index] in _GERUND:
        return True
    return _has_verb_within(words, index, _VERB_WINDOW)


def _is_verb(words: Sequence[str], index: int) -> bool:
    while index + 1 < len(words) and words[index].lower() in _ADVERB:
        index += 1
    word = words[index]
    return word.lower() in _VERB or (len(word) > 4 and word.endswith("ed") and word.islower())


def _has_verb_within(words: Sequence[str], index: int, window: int) -> bool:
    """Whether a finite verb is in the next `window` words, before another conjunction or relative clause."""
    for word in words[index : index + window]:
        lower_word = word.lower()
        if lower_word in _VERB:
            return True
        if lower_word in _RELATIVE or lower_word in ("and", "but", "that"):
            return False
    return False
