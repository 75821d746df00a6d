"""Sentences for single triples: filled templates, and plain clauses with the predicate's words."""

import re
from collections.abc import Mapping
from itertools import takewhile

from agggen.records import NO_SUBJECT, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.lexicon import BOOLEANS
from agggen.verification.normal import MONTHS, word_set

_VERBS = word_set(  # verbs that begin a predicate, except forms that can be plural nouns ("uses")
    "is are was were has had can may will does did accepts affects attends became contains crosses employs includes "
    "inhabits inhibits involves knows leads makes manages operates owns precedes prevents produces provides publishes "
    "represents requires sells serves speaks supports teaches treats won wrote"
)
_INTRANSITIVE = word_set(  # verbs without a passive: "died on", not "is died on"
    "appeared belonged competed debuted died graduated lived moved participated played resided retired served starred "
    "studied worked"
)
_EVENTS = word_set(  # participles of events, which take "was": "was founded in", but "is located in"
    "born built composed constructed created designed directed discovered drawn edited established filmed formed "
    "founded invented launched opened painted produced recorded released written"
)
PREPOSITIONS = word_set("of in on at by with to from for as into under over near beside behind")
_PARTICIPLE = re.compile(  # in predicates such as ``written by``, not ``seed of``, ``need for`` or ``bed in``
    r"\w{2,}[^\We]ed|used|born|built|drawn|given|held|known|made|spoken|sold|sung|taken|told|won|worn|written",
    re.IGNORECASE,
)
_PLURAL = re.compile(  # nouns that take "are"
    r"(?!.*(?:ss|us|as|is|ics|news|series|species|means|headquarters)$)\w{3,}s|children|men|people|women", re.IGNORECASE
)
_IRREGULAR_PLURALS = {"child": "children", "man": "men", "person": "people", "woman": "women"}
_PLACES = ("place", "location", "where")  # nouns before a participle that has no agent: ``place buried``
# A predicate whose values are people: ``leader name``, not ``birth name``
_ROLE_NAME = re.compile(r"((?:.+ )?(?!former|other|number|user)\w+(?:er|or)) name", re.IGNORECASE)
# A predicate that is a noun after "has": ``has part``, not ``has to its west``
_HAS = re.compile(rf"has ((?:(?!(?:{'|'.join(PREPOSITIONS)})\b)\S+ ?)+)", re.IGNORECASE)
_UNIT = re.compile(r"(.+) \(in (\w+)\)")  # a predicate that names the unit of its values: ``elevation (in metres)``
_MEASURE = re.compile(  # a predicate that takes "has" if its value is a number: ``runway length``
    r"(?:.+ )?(?:apoapsis|area|beam|budget|capacity|cost|density|depth|diameter|displacement|duration|elevation|gross|"
    r"height|income|length|mass|orbital period|periapsis|population|price|radius|revenue|rotation period|running time|"
    r"runtime|salary|size|speed|temperature|velocity|volume|weight|wheelbase|width)(?: above .+)?",
    re.IGNORECASE,
)
_COUNT = re.compile(r"number of (?P<things>.+)|(?P<thing>.+) count", re.IGNORECASE)
_IDENTIFIER = re.compile(r".+ (?:code|id|identifier|number)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
MONTH = f"(?:{'|'.join(map(str.capitalize, MONTHS))})"
_DAY = re.compile(rf"\d{{1,2}} {MONTH},? \d{{4}}|{MONTH} \d{{1,2}},? \d{{4}}", re.IGNORECASE)
ADJECTIVE = re.compile(r".*(?:friendly|free|ful|less|ous|proof|\w{3}[ai]ble|\w{2}[^\We]ed)", re.IGNORECASE)
"""Predicates of truth values that are adjectives: ``family friendly``, ``wheelchair accessible``."""
_YEAR = re.compile(r"1\d{3}|20\d\d")
# A name with "the", if training texts do not tell: "the Arabian Sea", "the Labour Party (UK)", "the Battle of Antietam"
_WITH_THE = re.compile(
    r"(?!(?:An?|The|\S+'s?) )(?:(?:[A-Z][^,]* )(?:Air Force|Army|Assembly|Award|Capitol|Congress|Empire|Government|"
    r"Islands|Kingdom|language|League|Legislature|Medal|Navy|Ocean|Parliament|Party|Republic|River|Sea|Senate|States|"
    r"team|Union|War)|(?:Association|Battle|Church|Gulf|House|Isle|Kingdom|Order|Parliament|Republic|University) of .+|"
    r"Netherlands|Philippines)(?: \([^()]+\))?"
)
_WITH_UNIT = re.compile(r"(-?\d[\d.,]*) \(([a-z]+(?:[ A-Z][a-z]+)*)\)")  # ``5.0 (kilometrePerSeconds)``


def value_text(value: str) -> str:
    """A value as plain text for sentences: ISO dates as ``30 May 1999``, units as in ``5.0 kilometres per second``."""
    literal = entity_words(value)
    if date := _DATE.fullmatch(literal):
        return f"{int(date[3])} {MONTHS[int(date[2]) - 1].capitalize()} {date[1]}"
    if with_unit := _WITH_UNIT.fullmatch(literal):
        unit, per, divisor = predicate_words(with_unit[2]).partition(" per ")
        *adjectives, noun = unit.split()
        if per or re.search("[^us]s$", noun):
            return f"{with_unit[1]} {' '.join([*adjectives, plural(noun)])}{per}{divisor.removesuffix('s')}"
    return literal


def _share_of_the(name: str, articles: Mapping[str, float]) -> float | None:
    """The share of a name's mentions in training texts that follow "the"; if none, 1 for `_WITH_THE`, else None."""
    return articles.get(name, 1.0 if _WITH_THE.fullmatch(name) else None)


def fill_template(template: str, triple: Triple, articles: Mapping[str, float]) -> str:
    """Fills a template with a triple's subject and object; adjusts the articles before names of `articles`."""
    subject, value = entity_words(triple.subject), value_text(triple.object)
    for placeholder, name in (("{subject}", subject), ("{object}", value)):
        share = _share_of_the(name, articles)
        if share is not None and share <= 0.5:
            template = re.sub(rf"\bthe {placeholder}", placeholder, template, flags=re.IGNORECASE)
        elif share is not None:
            before, _, after = template.partition(placeholder)
            *_, word = before.split(" ")[:-1] or [""]
            if not before or word in PREPOSITIONS | _VERBS or word.endswith("ed"):
                template = f"{before}{'the' if before else 'The'} {placeholder}{after}"
    if not subject.endswith("s"):
        template = template.replace("{subject}' ", "{subject}'s ")
    if _DAY.fullmatch(value):
        template = template.replace(" in {object}", " on {object}")
    article = "an" if value[:1].lower() in "aeiou" else "a"
    template = re.sub(r"\b(a)n?(?= \{object\})", lambda match: match[1] + article[1:], template, flags=re.IGNORECASE)
    return one_full_stop(template.replace("{subject}", "\0").replace("{object}", value).replace("\0", subject))


def plural(noun: str) -> str:
    """The plural of an English noun; a plural is returned unchanged."""
    if _PLURAL.fullmatch(noun):
        return noun
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if re.search(r'(?:s|x|z|ch|sh)$', noun) else 's'}"


def one_full_stop(sentence: str) -> str:
    """The sentence without its last full stop if it ends with two, the first of which belongs to an abbreviation."""
    return sentence[:-1] if sentence.endswith("..") and not sentence.endswith("...") else sentence


def plain_clause(triple: Triple, articles: Mapping[str, float]) -> str:
    """A sentence for a triple, from the words of its predicate: ``The eat type of Aromi is pub.``, ``Aspirin interacts
    with warfarin.``, ``Ann has a height of 170 cm.``; if no pattern fits the predicate: ``Oda: successor to: Ann.``

    The `articles` are those of a `Lexicon`.
    """
    subject, name, value = entity_words(triple.subject), predicate_words(triple.predicate), value_text(triple.object)
    if unit := _UNIT.fullmatch(name):
        name, value = unit[1], f"{value} {unit[2]}"
    if value.lower() not in BOOLEANS and (noun := _HAS.fullmatch(name)):
        name = noun[1]
    if value[:1].isupper() and (role := _ROLE_NAME.fullmatch(name)):
        name = role[1]
    is_single_name = "," not in value and " and " not in value and value[:1].isupper()
    subject, value = (
        f"the {words}" if (_share_of_the(words, articles) or 0.0) > 0.5 else words for words in (subject, value)
    )
    first, *middle, last = name.split() if " " in name else (name, name)
    passive = not middle and first not in (*_PLACES, last) and _PARTICIPLE.fullmatch(last) and not value[:1].isdigit()
    head = [first] if passive else [*takewhile(lambda word: word not in PREPOSITIONS, name.split())]
    verb = "is" if not (head and _PLURAL.fullmatch(head[-1])) else "include" if is_single_name else "are"
    on_or_in = "on" if _DAY.fullmatch(value) else "in" if _YEAR.fullmatch(value) else ""
    if triple.subject == NO_SUBJECT:
        text = f"The {name} {verb} {value}."
    elif value != "1" and re.fullmatch(r"\d[\d,]*", value) and (count := _COUNT.fullmatch(name)):
        text = f"{subject} has {value} {count['things'] or plural(count['thing'])}."
    elif value != "1" and not on_or_in and re.fullmatch(r"\d[\d,]*", value) and verb == "are" and not passive:
        text = f"{subject} has {value} {name}."
    elif value[:1].isdigit() and _MEASURE.fullmatch(name):
        text = f"{subject} has {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name} of {value}."
    elif _IDENTIFIER.fullmatch(name):
        text = f"{subject} has the {name} {value_text(triple.object)}."
    elif on_or_in and (
        (_PARTICIPLE.fullmatch(first) and (name == first or name.split()[1] in PREPOSITIONS - {last}))
        or (first in ("first", "last") and not middle and _PARTICIPLE.fullmatch(last))
    ):
        text = f"{subject} was {name} {on_or_in} {value}."
    elif value.lower() in BOOLEANS and (first in _VERBS | PREPOSITIONS or ADJECTIVE.fullmatch(name)):
        text = f"{subject}: {name}: {value}."
    elif first in _VERBS or (
        last in PREPOSITIONS and name not in PREPOSITIONS and (first.endswith("s") or first in _INTRANSITIVE)
    ):
        text = f"{subject} {name} {f'{on_or_in} ' if on_or_in and last not in PREPOSITIONS else ''}{value}."
    elif (
        name in PREPOSITIONS
        or (last == "of" and not middle)
        or (not middle and last in PREPOSITIONS and (last == "by" or _PARTICIPLE.fullmatch(first)))
    ):
        text = f"{subject} {'was' if first in _EVENTS else 'is'} {name} {value}."
    elif last in PREPOSITIONS or _PARTICIPLE.fullmatch(name):
        text = f"{subject}: {name}: {value}."
    else:
        text = f"The {name} {'by' if passive else 'of'} {subject} {verb} {value}."
    return one_full_stop(f"T{text[1:]}" if text.startswith("the ") else text)
