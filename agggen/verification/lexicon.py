"""What training texts teach a verifier: other words for values, the words of predicates, and which words are names.

A lexicon is learned from the training split alone and lies in the bundle as JSON; a user may add wordings of values in
a file (`read_wordings`). Wordings that it accepts are counted apart from literal ones.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agggen.errors import BundleError, ConfigError
from agggen.records import NO_SUBJECT, Triple
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.normal import Word
from agggen.verification.values import FUNCTION_WORDS, OPENERS, way_of

BOOLEANS = frozenset(("yes", "no", "true", "false"))
_NEIGHBOURS = 2
_FEWEST_VALUES = 20
"""Of a predicate, in training, before anything is said about what stands around them."""

_VERBS = frozenset(("is", "are", "was", "were", "has", "had", "can", "may", "will", "does", "did"))
_PREPOSITIONS = frozenset(
    (
        "of",
        "in",
        "on",
        "at",
        "by",
        "with",
        "to",
        "from",
        "for",
        "as",
        "into",
        "under",
        "over",
        "near",
        "beside",
        "behind",
    )
)


@dataclass(frozen=True)
class Lexicon:
    """Wordings learned from training texts; an empty one accepts values by rule alone."""

    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other wordings of a value: ``United_States``: ``("American", ...)``."""
    booleans: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Of predicates whose values are only yes and no, true and false: the wordings of each."""
    wordings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names, numbers and value words (normal forms) that belong to the wording of a predicate, whatever its value."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """A predicate's most frequent wording of a fact of its own, ``{subject}`` and ``{object}`` left open."""
    contexts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often a word stands near a predicate's value: ``L1 period``: 40."""
    value_words: frozenset[str] = frozenset()
    """Normal forms that training texts take from values and hardly ever say otherwise."""
    lower: frozenset[str] = frozenset()
    """Normal forms of words that stand in training texts without a capital, or with one only to open a sentence."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON; :meth:`of` reads it."""
        return {
            "variants": {value: list(said) for value, said in sorted(self.variants.items())},
            "booleans": {
                name: {value: list(said) for value, said in sorted(values.items())}
                for name, values in sorted(self.booleans.items())
            },
            "wordings": {name: list(said) for name, said in sorted(self.wordings.items())},
            "templates": dict(sorted(self.templates.items())),
            "contexts": {name: dict(sorted(counts.items())) for name, counts in sorted(self.contexts.items())},
            "value_words": sorted(self.value_words),
            "lower": sorted(self.lower),
        }

    @classmethod
    def of(cls, data: object, where: str = "a lexicon") -> Lexicon:
        """Reads what :meth:`as_dict` writes; parts may be left out.

        Raises:
            BundleError: `where`, and which part is wrong.
        """
        if not isinstance(data, Mapping):
            raise BundleError(f"{where} must be a JSON object, not {type(data).__name__}")
        if unknown := sorted(set(data) - {*cls.__dataclass_fields__}):
            raise BundleError(f"{where}: unknown part {unknown[0]!r}; it has {', '.join(cls.__dataclass_fields__)}")
        try:
            return cls(
                variants={value: _strings(said) for value, said in data.get("variants", {}).items()},
                booleans={
                    name: {value: _strings(said) for value, said in values.items()}
                    for name, values in data.get("booleans", {}).items()
                },
                wordings={name: _strings(said) for name, said in data.get("wordings", {}).items()},
                templates={name: _strings([said])[0] for name, said in data.get("templates", {}).items()},
                contexts={
                    name: {word: int(count) for word, count in counts.items()}
                    for name, counts in data.get("contexts", {}).items()
                },
                value_words=frozenset(_strings(data.get("value_words", ()))),
                lower=frozenset(_strings(data.get("lower", ()))),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise BundleError(f"{where} is not of the form that a lexicon has: {error}") from error

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """The lexicon in a file.

        Raises:
            BundleError: the file is not JSON of this form.
        """
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")), str(path))
        except json.JSONDecodeError as error:
            raise BundleError(f"{path}: line {error.lineno} is not JSON: {error.msg}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise BundleError(f"cannot read the lexicon {path}: {error}") from error

    def with_variants(self, given: Mapping[str, Sequence[str]]) -> Lexicon:
        """This lexicon with wordings of values that a user gives."""
        variants = {**self.variants}
        for value, said in given.items():
            variants[value] = tuple(dict.fromkeys((*variants.get(value, ()), *said)))
        return Lexicon(**{**self.__dict__, "variants": variants})


def _strings(given: Iterable[object]) -> tuple[str, ...]:
    """The strings of a list; a string is none."""
    if isinstance(given, str | Mapping):
        raise TypeError(f"{given!s:.40} is no list")
    for item in given:
        if not isinstance(item, str):
            raise TypeError(f"{item!r:.40} is no string")
    return tuple(map(str, given))


def read_wordings(path: Path) -> dict[str, tuple[str, ...]]:
    """A user's wordings of values: ``{"United_States": ["the States"]}``, values as they stand in the records.

    Raises:
        ConfigError: the file cannot be read or is not JSON of this form, or a wording holds no word.
    """
    form = f'{path} must be JSON like {{"United_States": ["the States", "American"]}}'
    try:
        given = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no JSON, or no Unicode
        raise ConfigError(f"{form}: {error}") from error
    if not isinstance(given, dict) or not given:
        raise ConfigError(f"{form}, a value or more with its wordings, not {given!s:.40}")
    for value, said in given.items():
        if not isinstance(said, list) or not said:
            raise ConfigError(f"{form}: the wordings of {value!r} must be a list of strings, not {said!r:.40}")
        for text in said:
            if not isinstance(text, str) or way_of(text, "lexicon") is None:
                raise ConfigError(f"{form}: the wording {text!r:.40} of {value!r} holds no word")
    return {value: tuple(said) for value, said in given.items()}


def suspicious(word: Word, value_words: frozenset[str], lower: frozenset[str]) -> bool:
    """Whether a word needs a triple that it comes from: a number, a name, or a word known from values alone."""
    if word.kind in ("number", "date", "ordinal"):
        return not word.spelled
    if word.kind != "word" or word.optional:
        return False
    if word.form in FUNCTION_WORDS:
        return len(word.raw) > 1 and word.raw.isupper()  # the US, the WHO
    if word.form in value_words:
        return True
    opens = word.initial and (not lower or word.form in OPENERS)
    return word.raw[:1].isupper() and word.form not in lower and not opens


def fill(template: str, triple: Triple) -> str:
    """The sentence of a template for a triple."""
    subject, value = entity_words(triple.subject), entity_words(triple.object)
    article = "an" if value[:1].lower() in "aeiou" else "a"
    template = re.sub(r"\b(a)n?(?= \{object\})", lambda found: found[1] + article[1:], template, flags=re.IGNORECASE)
    return template.replace("{subject}", "\0").replace("{object}", value).replace("\0", subject)


def clause(triple: Triple) -> str:
    """A plain sentence: ``The eat type of Aromi is pub.``, ``Aspirin interacts with warfarin.``

    A name of which it is not clear whether it is a noun or a verb stands for itself: ``Oda: made by: Ann.``
    """
    subject, name, value = entity_words(triple.subject), predicate_words(triple.predicate), entity_words(triple.object)
    first, last = name.split()[0], name.split()[-1]
    if triple.subject == NO_SUBJECT:
        return f"The {name} is {value}."
    if name in _PREPOSITIONS:
        return f"{subject} is {name} {value}."
    if first in _VERBS or (last in _PREPOSITIONS and first.endswith("s")):
        return f"{subject} {name} {value}."
    if last in _PREPOSITIONS:
        return f"{subject}: {name}: {value}."
    return f"The {name} of {subject} is {value}."


def neighbours(said: Sequence[Word], start: int, end: int, values: Sequence[bool]) -> Iterator[str]:
    """The words around the words ``[start, end)``, other values as ``*``: ``L1 period``, ``R1 and``; first of all, L1.

    Before a sentence's first word there is ``^``.
    """
    opened = False
    for distance in range(1, _NEIGHBOURS + 1):
        left, right = start - distance, end - 1 + distance
        opened = opened or left < 0 or said[left + 1].initial
        yield f"L{distance} " + ("^" if opened else "*" if values[left] else _one_article(said[left].form))
        yield f"R{distance} " + ("$" if right >= len(said) else "*" if values[right] else said[right].form)


def _one_article(form: str) -> str:
    """``an`` as ``a``: which of them stands there depends on the value."""
    return "a" if form == "an" else form


def unheard(contexts: Mapping[str, int], left: str, most: float) -> bool:
    """Whether the word left of a value never stands there in training, where that says something.

    Args:
        contexts: of the value's predicate.
        left: the first of its `neighbours`.
        most: the share of the training values with a left word that stands there once (by Good and Turing, the
            probability of another new word) above which nothing is said.
    """
    occurrences = contexts.get("", 0) / (2 * _NEIGHBOURS)
    if left in contexts or occurrences < _FEWEST_VALUES:
        return False
    return sum(count == 1 for word, count in contexts.items() if word.startswith("L1 ")) / occurrences <= most


def fits(contexts: Mapping[str, int], around: Iterable[str]) -> float:
    """log p of the words around a value, if it is the predicate's whose `contexts` these are (naive Bayes)."""
    total = contexts.get("", 0) / (2 * _NEIGHBOURS)
    return sum(math.log((contexts.get(word, 0) + 0.5) / (total + 50.0)) for word in around)
