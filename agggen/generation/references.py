"""Which subjects a fact need not name, because its first words refer to a subject of the text before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from agggen.records import Record
from agggen.text.linearise import entity_words
from agggen.verification.values import TextIndex, value_wordings

_CONTINUES = re.compile(r"\W*(?:and|but|is|are|was|were|has|had)\b", re.IGNORECASE)
"""The beginning of a fact that continues the main clause of the preceding fact."""
_HAS_SUBJECT = re.compile(r"\W*(?:(?:and|but) )?\W*(?:[A-Z0-9]|(?:the|an?|its?|h[ei]s?|she|her|they|their)\b)")
"""The beginning of a fact that has a grammatical subject of its own: "and the capital is"."""
_PRONOUN = re.compile(
    r"(?:It|Its|He|His|She|Her|They|Their)\b|(?-i:[Tt]he [a-z]+(?: [a-z]+)? (?:is|was|has|had)\b)", re.IGNORECASE
)
"""The beginning of a sentence that does not name its subject: "It was", "The book was"."""
_RELATIVE = re.compile(r"\b(?:which|who|whose|whom|where|that)\b")
_JOINT = re.compile(r"\b(?:and|but|while|whereas)\s+(?:the\s+)?$", re.IGNORECASE)
"""What precedes the subject of a second main clause."""
_SENTENCE_END = re.compile(r"[.!?]\s+(?=[\"']?[A-Z0-9])")


class References:
    """The references in texts of one record, which has several subjects."""

    def __init__(self, record: Record) -> None:
        self._subjects = frozenset(triple.subject for triple in record.triples)
        objects = [triple.object for triple in record.triples if entity_words(triple.object)[:1].isupper()]
        self._wordings = {name: value_wordings(name) for name in (*self._subjects, *objects)}
        self._named: dict[str, tuple[str, ...]] = {}
        self._split: dict[str, tuple[str, ...]] = {}

    def implied(self, before: str, fact: str, begins_sentence: bool, previous: frozenset[str]) -> frozenset[str]:
        """The subjects that a fact need not name in full.

        "It" refers to the first subject of the last sentence; "and was" to the grammatical subject of its sentence, or,
        after a relative clause, to the subject of the preceding fact, as does "and the capital is"; "which" and "in"
        refer to any subject of the sentence. After a fact with several subjects, references are ambiguous, except to
        the grammatical subject of a sentence with one main clause. A subject that the text has named in full need not
        be named with its last part: "Adams County" for "Adams County, Pennsylvania".

        Args:
            before: the text before the fact.
            previous: the subjects of the preceding fact's triples.
        """
        sentences = self._sentences(before)
        short = frozenset(name for name in self._subjects if self._named_in_short(name, sentences, fact))
        return short | self._referents(sentences, fact, begins_sentence, previous)

    def _referents(
        self, sentences: Sequence[str], fact: str, begins_sentence: bool, previous: frozenset[str]
    ) -> frozenset[str]:
        if not sentences:
            return frozenset()
        last, several = sentences[-1], len(previous) > 1
        if begins_sentence:
            return frozenset() if several and self._second_clause(last) else frozenset(self.subjects(sentences)[:1])
        if last.split()[-1] in ("and", "but") or _CONTINUES.match(fact):
            if not (_HAS_SUBJECT.match(fact) or _RELATIVE.search(last) or self._second_clause(last)):
                return self._grammatical_subject(sentences)
            return frozenset() if several else previous
        return frozenset() if several else frozenset(self.subjects(sentences))

    def _sentences(self, text: str) -> tuple[str, ...]:
        """The sentences of a text; a full stop inside a name ends none."""
        if text not in self._split:
            indexed = TextIndex(text)
            spans = [span for some in self._wordings.values() for span in indexed.find(*some)]
            ends = [
                match.end()
                for match in _SENTENCE_END.finditer(text)
                if not any(start < match.start() and match.end() < end for start, end in spans)
            ]
            parts = (text[start:end] for start, end in pairwise((0, *ends, len(text))))
            self._split[text] = tuple(part for part in parts if part.strip())
        return self._split[text]

    def subjects(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """The subjects of the last sentence that names one, in order of mention; the referent of its pronoun is first.

        Args:
            sentences: of a text, in order.
        """
        if not sentences:
            return ()
        *earlier, last = sentences
        named = tuple(name for name in self._names(last) if name in self._subjects)
        if _PRONOUN.match(last):
            return tuple(dict.fromkeys((*self.subjects(earlier)[:1], *named)))
        return named or self.subjects(earlier)

    def _grammatical_subject(self, sentences: Sequence[str]) -> frozenset[str]:
        """The first name of the last sentence, or its pronoun's referent; empty if it is no subject of a triple."""
        if _PRONOUN.match(sentences[-1]):
            return frozenset(self.subjects(sentences[:-1])[:1])
        return frozenset(self._names(sentences[-1])[:1]) & self._subjects

    def _second_clause(self, sentence: str) -> bool:
        """Whether another main clause with a subject of its own may begin in the sentence: ``A is in B and B has``."""
        indexed = TextIndex(sentence)
        spans = [span for name in self._names(sentence)[1:] for span in indexed.find(*self._wordings[name])]
        return any(_JOINT.search(sentence[:start]) for start, _ in spans)

    def _names(self, sentence: str) -> tuple[str, ...]:
        """The subjects and other names of the record that a sentence has in full, in the order of first mention."""
        if sentence not in self._named:
            indexed = TextIndex(sentence)
            first = {name: min(spans) for name, some in self._wordings.items() if (spans := indexed.find(*some))}
            # of names that begin together the longest: "Adams County, Pennsylvania" before "Adams County"
            order = sorted(first, key=lambda name: (first[name][0], -first[name][1], name))
            self._named[sentence] = tuple(order)
        return self._named[sentence]

    def _named_in_short(self, name: str, sentences: Sequence[str], fact: str) -> bool:
        short, comma, _ = entity_words(name).partition(", ")
        others = (entity_words(other).partition(", ")[0] for other in self._wordings if other != name)
        if not comma or short in others or not TextIndex(fact).find(*value_wordings(short)):
            return False
        return any(name in self._names(sentence) for sentence in sentences)
