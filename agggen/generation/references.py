"""Coreference: the names to which "it", "which" or "and was" refer; a fact need not name such subjects."""

import re
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from itertools import pairwise

from agggen.records import Record, Triple
from agggen.text.linearise import entity_words
from agggen.verification.normal import Span, containing, words
from agggen.verification.record_words import capitalised_forms, find_name_parts
from agggen.verification.values import FUNCTION_WORDS, TextIndex, Wording, value_wordings

_CONTINUES = re.compile(r"\W*(?:and|but|is|are|was|were|has|had)\b", re.IGNORECASE)
"""The beginning of a fact that continues the main clause of the preceding fact."""
_SUBJECT = r"[^\W\d_a-z]|\d|(?:the|an?|its?|he|his|she|her|they|their|this|these|there)\b"  # its beginning
_HAS_SUBJECT = re.compile(rf"\W*(?:(?:and|but)\s+)?\W*(?:{_SUBJECT})")
"""The beginning of a fact with its own grammatical subject: "and the capital is"."""
_SECOND_CLAUSE = re.compile(rf"\b(?:and|but|while|whereas)\s+\W*(?:{_SUBJECT})")
"""The possible beginning of another main clause: ``A is in B and the leader of B is``; also matches ``A and B``."""
_PRONOUN = re.compile(
    r"(?:It|Its|He|His|She|Her|They|Their)\b|(?-i:[Tt]he [a-z]+(?: [a-z]+)? (?:is|was|has|had)\b)", re.IGNORECASE
)
"""The beginning of a sentence that does not name its subject: "It was", "The book was"."""
_RELATIVE = re.compile(r"\b(?:which|who|whose|whom|where|that)\b")
_ATTACHMENT = re.compile(r".?\W*(which|who|whose|where)\b|(?:.\s*)?,\s*(?:an?|one)\b")
"""The preceding fact's last character and the beginning of a relative clause or an apposition (", a member of")."""
_RELATIVE_CLAUSE = re.compile(r",?\s+(?:which|who|whose)\b")  # the beginning of a relative clause inside a fact
_CLAUSE_END = re.compile(r"[,;.]\s|\b(?:and|but|which|who|whose|where|while)\b|$")
"""The possible end of a relative clause; ends inside names are ignored."""
_POSSESSIVE = re.compile(r"(?<=['\u2019]s)|['\u2019]")
"""Matches at the end of a name's span if the span ends with 's or is followed by an apostrophe."""
_SENTENCE_END = re.compile(r"[.!?][\"')\u201d\u2019]*\s+")


class References:
    """Resolves references to the names of one record in its texts."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._subjects = frozenset(triple.subject for triple in record.triples)
        self._names = cache(self._names_of)

    @cached_property
    def _wordings(self) -> dict[str, Sequence[Wording]]:
        """The wordings of subjects and of objects that are names."""
        objects = [triple.object for triple in self._record.triples if entity_words(triple.object)[:1].isupper()]
        return {name: value_wordings(name) for name in (*self._subjects, *objects)}

    def named_subjects(self, fact: str) -> frozenset[str]:
        """The subjects that a fact names; "Felipe VI of Spain" does not name Spain."""
        return self._subjects & self._names(fact).keys()

    def shortens(self, fact: str, names: Collection[str]) -> bool:
        """Whether a fact has a part of one of `names` other than that before a comma: "Inc is in Ulm" of ``Oz Inc.``"""
        spans = {span for mentions in self._names(fact).values() for span in mentions}
        parts = (entity_words(name).partition(", ")[2] or name for name in names)
        forms = frozenset(form for part in parts for form in capitalised_forms(part)) - FUNCTION_WORDS
        return any(
            word.form in forms
            and word.raw[:1].isupper()
            and not any(_within((word.start, word.end), start, end) for start, end in spans)
            for word in words(fact)
        )

    def has_wrong_antecedent(self, fact: str, triples: Collection[Triple]) -> bool:
        """Whether a relative clause directly after a name has a value of another subject, which it does not name."""
        names = self._names(fact)
        spans = [span for mentions in names.values() for span in mentions]
        indexed = TextIndex(fact)
        for pronoun in _RELATIVE_CLAUSE.finditer(fact):
            antecedents = {name for name, mentions in names.items() if pronoun.start() in (end for _, end in mentions)}
            if not antecedents:
                continue
            start = pronoun.end()
            ends = (match.start() for match in _CLAUSE_END.finditer(fact, start))
            end = next(end for end in ends if not any(first < end < last for first, last in spans))
            clause_names = {
                name for name, mentions in names.items() if any(_within(span, start, end) for span in mentions)
            }
            for triple in triples:
                values = indexed.find(*value_wordings(triple.object))
                if any(_within(span, start, end) for span in values) and not (
                    triple.subject in clause_names or {triple.subject, triple.object} & antecedents
                ):
                    return True
        return False

    def continues_another_name(self, before: str, fact: str) -> bool:
        """Whether a fact that does not name the record's only subject continues a sentence about another name ("and has
        an area" after "Ann leads Ulm"), or begins with "whose" after another name.
        """
        sentences = self._sentences(before)
        if sentences and re.match(r"\W*whose\b", fact) and not self.named_subjects(fact):
            return not self._subjects.issuperset(self._last_names(sentences[-1])[:1])
        continues = bool(sentences) and (sentences[-1].split()[-1] in ("and", "but") or _CONTINUES.match(fact))
        if not continues or _HAS_SUBJECT.match(fact) or _RELATIVE.search(sentences[-1]) or self.named_subjects(fact):
            return False
        first = min((mentions[0] for mentions in self._names(sentences[-1]).values()), default=(0, 0))
        is_alias = sentences[-1][first[1] :].lstrip()[:1] in (",", "(")  # "Ann Lee, known as Ann, is"
        return not (_SECOND_CLAUSE.search(sentences[-1]) or is_alias) and self._initial_subject(sentences) == ()

    def implied_subjects(
        self, before: str, fact: str, begins_sentence: bool, previous_subjects: frozenset[str]
    ) -> frozenset[str]:
        """The subjects that a fact need not name in full, by the reference with which it begins:

        - "It" at the beginning of a sentence: the first subject of the preceding sentence.
        - "and was": the name with which the sentence begins; the preceding fact's subject if the sentence begins with
          other words, or has a relative clause or a second main clause.
        - "and the capital is": the preceding fact's subject.
        - "which", or an apposition (", a member of"): the name directly before.
        - "where": the last subject in the list of names directly before: Ulm in "Ulm, Germany, where".
        - "in", or "which" that does not follow a name: any subject of the sentence.
        - If the preceding fact has several subjects, only the name with which the sentence begins, if any.
        - "Adams County", after a sentence with the full name: "Adams County, Pennsylvania".
        """
        sentences = self._sentences(before)
        shortened = frozenset(name for name in self._subjects if self._is_shortened(name, sentences, fact))
        return shortened | self._referents(sentences, fact, begins_sentence, previous_subjects)

    def _referents(
        self, sentences: Sequence[str], fact: str, begins_sentence: bool, previous_subjects: frozenset[str]
    ) -> frozenset[str]:
        """As `implied_subjects`, without shortened names."""
        if not sentences:
            return frozenset()
        last, is_ambiguous = sentences[-1], len(previous_subjects) > 1
        attachment, names = _ATTACHMENT.match(last.rstrip()[-1:] + fact), self._last_names(last)
        if attachment and names:
            candidates = [name for name in names if name in self._subjects] if attachment[1] == "where" else names
            return self._subjects.intersection(candidates[:1])
        initial_subject = None if _SECOND_CLAUSE.search(last) else self._initial_subject(sentences)
        if begins_sentence:
            return frozenset((initial_subject or ())[:1] if is_ambiguous else self._subjects_of(sentences)[:1])
        if last.split()[-1] in ("and", "but") or _CONTINUES.match(fact):
            if initial_subject is not None and not (_HAS_SUBJECT.match(fact) or _RELATIVE.search(last)):
                return frozenset(initial_subject)
            return frozenset() if is_ambiguous else previous_subjects
        return frozenset() if is_ambiguous else frozenset(self._subjects_of(sentences))

    def _initial_subject(self, sentences: Sequence[str]) -> tuple[str, ...] | None:
        """The subject (one or none) with which the last sentence begins, by name or pronoun; None for other words."""
        *earlier, last = sentences
        if _PRONOUN.match(last):
            return self._subjects_of(earlier)[:1]
        spans = self._names(last)
        article = len(last) - len(last.removeprefix("The "))
        name = next((name for name, mentions in spans.items() if mentions[0][0] in (0, article)), None)
        if name is None:
            return None
        possessive = _POSSESSIVE.match(last, spans[name][0][1])  # "Ulm's mayor is Ann and is" does not refer to Ulm
        if possessive and not _POSSESSIVE.search(entity_words(name)[-2:]):
            return ()
        return (name,) if name in self._subjects else ()

    def _last_names(self, text: str) -> list[str]:
        """The names, separated by commas, at the end of a text; the last one first."""
        starts = {mentions[-1][1]: (name, mentions[-1][0]) for name, mentions in self._names(text).items()}
        names: list[str] = []
        end = len(text.rstrip(" ,()\u2013"))
        while end in starts:
            name, start = starts[end]
            names.append(name)
            end = len(text[:start].rstrip(", ")) if text[:start].endswith(", ") else -1
        return names

    def _subjects_of(self, sentences: Sequence[str]) -> tuple[str, ...]:
        """The subjects of the last sentence that has any, in order of mention; resolves an initial pronoun."""
        if not sentences:
            return ()
        *earlier, last = sentences
        subjects = tuple(name for name in self._names(last) if name in self._subjects)
        if _PRONOUN.match(last):
            return tuple(dict.fromkeys((*self._subjects_of(earlier)[:1], *subjects)))
        return subjects or self._subjects_of(earlier)

    def _names_of(self, text: str) -> dict[str, list[Span]]:
        """By name, in the order of first mention, its spans outside longer names; of subjects also those in parts."""
        indexed = TextIndex(text)
        matches = {name: indexed.find(*wordings) for name, wordings in self._wordings.items()}
        matches |= {name: find_name_parts(name, matches, indexed) for name in self._subjects if not matches[name]}
        spans = {span for mentions in matches.values() for span in mentions}
        outer = {
            name: sorted(span for span in mentions if not containing(span, spans)) for name, mentions in matches.items()
        }
        mentioned = [name for name, mentions in outer.items() if mentions]
        return {name: outer[name] for name in sorted(mentioned, key=lambda name: (outer[name][0], name))}

    def _sentences(self, text: str) -> tuple[str, ...]:
        """The sentences of a text; a full stop inside a name does not end a sentence."""
        spans = [span for mentions in self._names(text).values() for span in mentions]
        ends = [
            match.end()
            for match in _SENTENCE_END.finditer(text)
            if not text[match.end() :].lstrip("\"'(\u201c\u2018")[:1].islower()
            and not any(start < match.start() and match.end() < end for start, end in spans)
        ]
        parts = (text[start:end] for start, end in pairwise((0, *ends, len(text))))
        return tuple(part for part in parts if part.strip())

    def _is_shortened(self, name: str, sentences: Sequence[str], fact: str) -> bool:
        """Whether the fact has the part of a name before its comma, and one of `sentences` the full name."""
        short, comma, _ = entity_words(name).partition(", ")
        other_parts = (entity_words(other).partition(", ")[0] for other in self._wordings if other != name)
        if not comma or short in other_parts:
            return False
        spans = {span for mentions in self._names(fact).values() for span in mentions}
        is_mentioned = any(not containing(span, spans) for span in TextIndex(fact).find(*value_wordings(short)))
        return is_mentioned and any(name in self._names(sentence) for sentence in sentences)


def _within(span: Span, start: int, end: int) -> bool:
    return start <= span[0] and span[1] <= end
