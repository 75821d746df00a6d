"""The lexicon of the strict check: wordings of values, words and contexts of predicates, and ordinary words.

It is learned from the training split (``agggen.verification.learning``) and saved as JSON in the bundle. Users can add
wordings (`read_wordings`) and templates, from a file (`read_templates`) or another corpus (``learn_phrases``).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from agggen.errors import BundleError, ConfigError
from agggen.files import read_json
from agggen.records import Record
from agggen.text.linearise import entity_words, predicate_words
from agggen.verification.normal import Word, word_set, words
from agggen.verification.values import FUNCTION_WORDS, OPENERS, to_wording

BOOLEANS = frozenset(("yes", "no", "true", "false"))
_PLACE_OR_TIME = re.compile(r"(?![a-z])(?!\d)|[\d-]+$|.*\b\d{4}$")  # matches a name, a year or a date
_WordingsByValue = Annotated[dict[str, Annotated[tuple[str, ...], Field(min_length=1)]], Field(min_length=1)]
_Words = Mapping[str, tuple[str, ...]]
NEARLY_ALL = 0.985  # minimum share of a word's occurrences in training texts for which a rule learned for it holds
MAX_COVER = 10  # maximum number of predicates of a word, or of roles of names after it, that cover `NEARLY_ALL`

PRONOUNS = {"male": word_set("he him himself his"), "female": word_set("her hers herself she")}
"""The pronouns that say a subject's gender."""


@dataclass(frozen=True)
class Lexicon:
    """What the strict check knows from training texts. With an empty lexicon, values match by rule only."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    variants: _Words = field(default_factory=dict)  # wordings by value: ``{"United_States": ("American", ...)}``
    booleans: Mapping[str, _Words] = field(default_factory=dict)
    """By predicate and truth value: phrases that express it, ``{"familyFriendly": {"yes": ("kid friendly", ...)}}``."""
    wordings: _Words = field(default_factory=dict)
    """By predicate: names, numbers and value words (normal forms) that express it, independent of its value."""
    templates: Mapping[str, str] = field(default_factory=dict)
    """By predicate: the most frequent sentence for one triple, with ``{subject}`` and ``{object}``."""
    contexts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By predicate: counts of the words around its values, ``{"L1 period": 40}``, and their sum, with key ``""``."""
    value_words: frozenset[str] = frozenset()  # normal forms that occur almost only in values
    lower: frozenset[str] = frozenset()  # normal forms of words that often begin with a small letter inside sentences
    phrases: Mapping[str, str] = field(default_factory=dict)  # by `phrase_key`: templates of another corpus
    articles: Mapping[str, float] = field(default_factory=dict)  # by name: the share of its mentions after "the"
    genders: _Words = field(default_factory=dict)  # by subject: those whose `PRONOUNS` its texts have
    value_pairs: _Words = field(default_factory=dict)
    """By value of one lower-case word: its pairs with an adjacent word that are almost only in texts with the value."""
    shared: _Words = field(default_factory=dict)  # by number or lower-case value with several predicates: these
    unrelated_pairs: _Words = field(default_factory=dict)
    """By predicate: pairs of a value and the next word that express another one: ``{"rating": ("low price", ...)}``."""
    implies: Mapping[str, str] = field(default_factory=dict)
    """By word or word pair of a text: the predicate that the record must have, ``{"star": "customerRating"}``, or the
    word itself, if a triple must contain it, ``{"popular": "popular"}``."""
    cues: _Words = field(default_factory=dict)  # by predicate: nearly every sentence with a value has one of these

    predicates_of: _Words = field(default_factory=dict)
    """By word: nearly every sentence with the word has a value of one of these: ``{"born": ("birthPlace",)}``."""
    roles_after: _Words = field(default_factory=dict)
    """By 1 to 3 words: the roles of nearly all names after them: ``{"leader of": ("subject of leaderName",)}``."""

    def as_dict(self) -> dict[str, Any]:
        """The lexicon as plain JSON; inverse of :meth:`of`."""
        data = TypeAdapter(Lexicon).dump_python(self, mode="json")
        return {**data, "value_words": sorted(self.value_words), "lower": sorted(self.lower)}

    @classmethod
    def of(cls, data: object, source: str = "a lexicon") -> Lexicon:
        """The inverse of :meth:`as_dict`; missing parts are empty. Raises BundleError, which names `source`."""
        try:
            return TypeAdapter(Lexicon).validate_python(data)
        except ValidationError as error:
            reason = f"{_first_error(error)}; its parts are {', '.join(Lexicon.__dataclass_fields__)}"
            raise BundleError(f"{source} is not a valid lexicon: {reason}") from error

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Reads a lexicon from a JSON file of a bundle; raises `BundleError` if it is not a lexicon."""
        return cls.of(read_json(path), str(path))

    def template(self, predicate: str, value: str = "") -> str | None:
        """The first template of a predicate in `templates`, `common_phrases` (those that end with "in" only for places
        and times) and `phrases`; None if there is none.
        """
        key = phrase_key(predicate)
        common = common_phrases().get(key, "")
        if common.endswith(" in {object}.") and not _PLACE_OR_TIME.match(value):
            common = ""
        return self.templates.get(predicate) or common or self.phrases.get(key)

    def wrong_pronouns(self, record: Record) -> frozenset[str]:
        """The `PRONOUNS` of a gender that is neither a value of the record nor in the `genders` of one of its subjects;
        none if `genders` is empty.
        """
        names = {name for triple in record.triples for name in (triple.subject, triple.object)}
        genders = {*map(str.lower, names), *chain(*(self.genders.get(triple.subject, ()) for triple in record.triples))}
        wrong = chain(*(forms for gender, forms in PRONOUNS.items() if self.genders and gender not in genders))
        return frozenset(wrong).difference(word.form for name in names for word in words(entity_words(name)))

    def merged(self, other: Lexicon) -> Lexicon:
        """The union of both lexicons; this one's templates, phrases and articles have priority. A word that is a value
        word in one lexicon and an ordinary word in the other becomes an ordinary word.
        """
        pairs = ((self, other), (other, self))
        merged: dict[str, Any] = {
            name: {**getattr(other, name), **getattr(self, name)} for name in ("templates", "phrases", "articles")
        }
        for name in ("variants", "wordings", "genders", "value_pairs", "shared", "unrelated_pairs"):
            merged[name] = _union(getattr(self, name), getattr(other, name))
        merged["booleans"] = {
            name: _union(self.booleans.get(name, {}), other.booleans.get(name, {}))
            for name in {**self.booleans, **other.booleans}
        }
        merged["contexts"] = {
            name: dict(Counter(self.contexts.get(name, {})) | Counter(other.contexts.get(name, {})))
            for name in {**self.contexts, **other.contexts}
        }
        merged["lower"] = self.lower | other.lower
        ordinary = (self.lower - self.value_words) | (other.lower - other.value_words)
        merged["value_words"] = (self.value_words | other.value_words) - ordinary
        merged["implies"] = {
            word: name
            for lexicon, other_lexicon in reversed(pairs)
            for word, name in lexicon.implies.items()
            if other_lexicon.implies.get(word, "" if other_lexicon.lower.issuperset(word.split()) else name) == name
        }
        merged["cues"] = {
            name: words
            for name, words in _union(self.cues, other.cues).items()
            if all(name in lexicon.cues or name not in lexicon.contexts for lexicon, _ in pairs)
        }
        predicates_of: dict[str, set[str]] = defaultdict(set)
        for word in {**self.predicates_of, **other.predicates_of}:
            for lexicon, other_lexicon in pairs:
                # an ordinary word of one lexicon may express any predicate that only this lexicon has
                unshared = lexicon.contexts.keys() - other_lexicon.contexts.keys() if word in lexicon.lower else ()
                predicates_of[word].update(lexicon.predicates_of.get(word, unshared))
        merged["predicates_of"] = {word: tuple(sorted(names)) for word, names in predicates_of.items()}
        merged["roles_after"] = {
            words: roles
            for words, roles in _union(self.roles_after, other.roles_after).items()
            if all(
                words in lexicon.roles_after or not lexicon.lower.issuperset({*words.split()} - {"*"})
                for lexicon, _ in pairs
            )
        }
        return Lexicon(**merged)


def _union(first: Mapping[str, Sequence[str]], second: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(dict.fromkeys((*first.get(key, ()), *second.get(key, ())))) for key in {**first, **second}}


def read_wordings(path: Path) -> dict[str, tuple[str, ...]]:
    """Reads wordings of values from a JSON file: ``{"United_States": ["the States"]}``; raises ConfigError."""
    try:
        wordings = TypeAdapter(_WordingsByValue).validate_python(json.loads(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # invalid JSON or UTF-8, or another form
        reason = _first_error(error) if isinstance(error, ValidationError) else error
        form = '{"United_States": ["the States", "American"]}'
        raise ConfigError(f"{path} must be JSON like {form}: {reason}") from error
    for value, texts in wordings.items():
        for text in texts:
            if to_wording(text, "lexicon") is None:
                raise ConfigError(f"{path}: the wording {text!r:.40} of {value!r} contains no word")
    return wordings


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def read_templates(path: Path) -> dict[str, str]:
    """Reads sentences from lines ``birthPlace<tab>{subject} was born in {object}.``; raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    templates = {}
    for number, line in enumerate(lines, start=1):
        predicate, _, template = (part.strip() for part in line.partition("\t"))
        if not predicate or any(template.count(name) != 1 for name in ("{subject}", "{object}")):
            raise ConfigError(
                f"{path}, line {number}: {line!r:.60} is not a predicate, a tab, and a sentence with {{subject}} and "
                "{object}, each once"
            )
        templates[predicate] = template if template[-1] in ".!?" else f"{template}."
    if not templates:
        raise ConfigError(f"{path} is empty; each line must be a predicate, a tab, and a sentence")
    return templates


@cache
def common_phrases() -> dict[str, str]:
    """By `phrase_key`: templates for common predicates that are right for any subject and need no training texts."""
    sentences = read_templates(Path(__file__).with_name("common_phrases.tsv"))
    return {phrase_key(predicate): sentence for predicate, sentence in sentences.items()}


def phrase_key(predicate: str) -> str:
    """The words of a predicate in alphabetical order: "birth of place" for ``placeOfBirth``."""
    return " ".join(sorted(predicate_words(predicate).lower().split()))


def is_restricted(word: Word, value_words: frozenset[str], lower: frozenset[str]) -> bool:
    """Whether a triple must license a word: a number, a name, or a word that occurs almost only in values."""
    if word.kind in ("number", "date", "ordinal"):
        return any(char.isdigit() for char in word.raw)
    if word.kind != "word" or word.optional:
        return False
    if word.form in FUNCTION_WORDS:
        return len(word.raw) > 1 and word.raw.isupper()  # the US, the WHO
    if word.form in value_words:
        return True
    is_opener = word.initial and (not lower or word.form in OPENERS)
    return word.raw[:1].isupper() and word.form not in lower and not is_opener


def content_pairs(tokens: Sequence[Word], index: int) -> Iterator[str]:
    """The pairs of the word at `index` and an adjacent content word of its sentence, as normal forms in text order."""
    if index and not tokens[index].initial and tokens[index - 1].form not in FUNCTION_WORDS:
        yield f"{tokens[index - 1].form} {tokens[index].form}"
    if index + 1 < len(tokens) and not tokens[index + 1].initial and tokens[index + 1].form not in FUNCTION_WORDS:
        yield f"{tokens[index].form} {tokens[index + 1].form}"
