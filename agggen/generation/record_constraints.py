"""The constraints of a record's facts, which make texts pass the strict check.

A fact must express all values of its triples completely, may contain only numbers, names and value words that these
triples license, and can only end if the strict check finds no fault.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from agggen.generation.constraints import Constraint, Spelling
from agggen.generation.fallbacks import candidate_sentences, fallback_sentence, fallback_sentences
from agggen.generation.grammar import Grammar, starts_correctly
from agggen.generation.hypotheses import PlanPrefix
from agggen.generation.references import References
from agggen.model.batch import FACT, LAST
from agggen.planning import IndexPlan
from agggen.records import Record, Triple
from agggen.text import detokenise
from agggen.text.linearise import entity_words
from agggen.text.tokenise import JOINER, tokenise
from agggen.text.vocabulary import SPECIALS, Vocabulary
from agggen.verification.check import Checker, passes
from agggen.verification.cues import foreign_words, triples_without_cue, wrong_roles
from agggen.verification.lexicon import PRONOUNS, is_restricted
from agggen.verification.normal import word_set, words
from agggen.verification.record_words import is_derived, names, value_parts
from agggen.verification.values import FUNCTION_WORDS, MatchedText, spellings

_NEVER_LAST = word_set(
    f"{JOINER}, and but which who whose that where with has have is are was were in on at by of for to as it its a an "
    "the also"
)
_SENTENCE_ENDS = frozenset(".!?")
_ARTICLE = re.compile(r"^(?:the|an?) ", re.IGNORECASE)
_FINAL_ZEROS = re.compile(r"(?<=\d)\.0+(?!\d)")
_THOUSANDS = re.compile(r"(?<=\d)(?=(?:\d{3})+(?![\d.]))")


class RestrictedWords:
    """The numbers, names and value words of a vocabulary, which a fact may contain only if a triple licenses them."""

    def __init__(self, vocabulary: Vocabulary, checker: Checker) -> None:
        self.vocabulary, self.checker = vocabulary, checker
        self.ids = {word: number for number, word in enumerate(vocabulary.words)}
        self.normal_forms = {  # by word id
            number: forms
            for number, word in enumerate(vocabulary.words[len(SPECIALS) :], start=len(SPECIALS))
            if (forms := self.forms(word))
        }
        self._by_form: dict[str, list[int]] = defaultdict(list)
        self._by_start: dict[str, set[str]] = defaultdict(set)
        for number, forms in self.normal_forms.items():
            for form in forms:
                self._by_form[form].append(number)
                self._by_start[form[:4]].add(form)
        self.pronouns = {
            self.ids[word]: form
            for word in self.ids
            if (form := word.strip(JOINER).lower()) in chain.from_iterable(PRONOUNS.values())
        }
        self.sentence_ends = frozenset(self.ids[word] for word in self.ids if word.strip(JOINER) in _SENTENCE_ENDS)
        self.full_stop = self.ids.get(f"{JOINER}.")

    def forbidden_ids(self, allowed: Iterable[str]) -> set[int]:
        """Ids of the restricted words with a form that is neither in `allowed` nor derived from a form in `allowed`."""
        forms = {
            form for base in allowed for form in self._by_start[base[:4]] if form == base or is_derived(form, base)
        }
        licensed = {
            number for form in forms for number in self._by_form[form] if forms.issuperset(self.normal_forms[number])
        }
        return self.normal_forms.keys() - licensed

    def forms(self, token: str) -> tuple[str, ...]:
        """The normal forms of a token that a triple must license."""
        lexicon = self.checker.lexicon
        return tuple(
            word.form
            for word in words(token.strip(JOINER))
            if is_restricted(word, lexicon.value_words, lexicon.lower) and not (word.initial and not lexicon.lower)
        )


class RecordConstraints:
    """The constraints of a record's facts; called with a plan prefix, returns the constraint of its last fact.

    Appends words of the fallbacks to `extras`, the record's out-of-vocabulary words. Like the last fact, the facts with
    the 1-based numbers `sentence_final_facts` must end a sentence.
    """

    def __init__(
        self,
        restricted: RestrictedWords,
        record: Record,
        extras: list[str],
        sentence_final_facts: frozenset[int] = frozenset(),
    ) -> None:
        self.restricted, self.record, self.extras = restricted, record, extras
        self._sentence_final_facts = sentence_final_facts
        self._extra_ids = {word: len(restricted.vocabulary) + number for number, word in enumerate(extras)}
        fallbacks = chain.from_iterable(candidate_sentences(restricted.checker, triple) for triple in record.triples)
        for text in ("The, the and", *fallbacks):  # words that joined fallbacks may add, and those of the fallbacks
            self._encode(text, extend=True)
        self._fallbacks: dict[frozenset[int], Spelling] = {}
        self._subjects = frozenset(triple.subject for triple in record.triples)
        self._references = References(record)
        self._grammar = Grammar(record.triples, restricted.checker.lexicon, restricted.full_stop is not None)
        known_names = restricted.checker.lexicon.articles
        self._new_subjects = {name for name in self._subjects if known_names and entity_words(name) not in known_names}
        self._wrong_pronouns = restricted.checker.lexicon.wrong_pronouns(record)
        self._spellings = cache(self._spellings_of)
        self._constraint = cache(self._constraint_of)
        self._expresses_predicates = cache(self._expresses_predicates_of)

    def __call__(self, prefix: PlanPrefix) -> Constraint:
        ends_sentence = prefix.is_complete or len(prefix.groups) in self._sentence_final_facts
        subjects = frozenset(self.record.triples[index].subject for group in prefix.groups[-2:-1] for index in group)
        previous_subjects = subjects if len(self._subjects) > 1 else frozenset[str]()
        return self._constraint(prefix.groups[-1], previous_subjects, prefix.is_complete, ends_sentence)

    def accepts(self, groups: IndexPlan, facts: Sequence[Sequence[int]]) -> bool:
        """Whether every fact of a text passes its constraint; `facts` are the word ids of the `groups`."""
        prefix, before = PlanPrefix.of(0, groups), list[int]()
        for number, fact in enumerate(facts, start=1):
            fact_prefix = prefix.first(number)
            before.append(LAST if fact_prefix.is_complete else FACT)
            if not self(fact_prefix).judge(fact, before):
                return False
            before += fact
        return True

    def ends_with_fallback(self, group: Iterable[int], words: Spelling) -> bool:
        """Whether the word ids of a fact end with the fallback of its group; False if the search used none."""
        fallback = self._fallbacks.get(frozenset(group))
        return fallback is not None and words[-len(fallback) :] == fallback

    def _fallback(self, group: frozenset[int]) -> Spelling:
        if group not in self._fallbacks:
            checker, triples = self.restricted.checker, [self.record.triples[index] for index in sorted(group)]
            encoded = [self._encode(text) for _, text in fallback_sentences(checker, triples)]
            if None in encoded:  # joining has introduced a word that is neither in the vocabulary nor an extra
                encoded = [self._encode(fallback_sentence(checker, triple)) for triple in triples]
            self._fallbacks[group] = tuple(word for spelling in encoded for word in spelling or ())
        return self._fallbacks[group]

    def _constraint_of(
        self, group: frozenset[int], previous_subjects: frozenset[str], is_last: bool, ends_sentence: bool
    ) -> Constraint:
        """The constraint of a fact that expresses `group` after a fact about `previous_subjects` (if ambiguous)."""
        restricted, checker = self.restricted, self.restricted.checker
        indices = sorted(group)
        triples = [self.record.triples[index] for index in indices]
        allowed = checker.allowed(triples)
        forbidden = {word for word, form in restricted.pronouns.items() if form in self._wrong_pronouns}
        forbidden |= restricted.forbidden_ids(allowed) | {
            number
            for number, word in enumerate(self.extras, start=len(restricted.vocabulary))
            if not all(
                form in allowed or any(is_derived(form, base) for base in allowed) for form in restricted.forms(word)
            )
        }
        value_spellings = [self._spellings(self.record.triples[index]) for index in indices]
        subject_words = {word for triple in triples for word in self._encode(entity_words(triple.subject)) or ()}
        value_words = {word for value in value_spellings for spelling in value for word in spelling}
        forbidden -= subject_words | value_words
        entities = names(self.record)
        paraphrasable = {
            number
            for number, triple in enumerate(triples)
            if not value_spellings[number] or value_parts(triple.object, entities)
        }
        value_only = {word for word in value_words - subject_words if self._only_in_values(word)}
        fact_subjects = frozenset(triple.subject for triple in triples)

        @cache
        def passes_without_context(fact: Spelling, begins_sentence: bool) -> bool:
            text = self._text(fact)
            findings = checker.findings(self.record, text, indices, (), begins_sentence)
            return (
                passes(findings)
                and self._grammar.accepts(text)
                and self._wrong_pronouns.isdisjoint(word.form for word in words(text))
                and not self._references.shortens(text, self._new_subjects)
            )

        @cache
        def judge(fact: Spelling, before: Spelling) -> bool:
            if ends_sentence and (not fact or fact[-1] not in restricted.sentence_ends):
                return False
            words_before = [word for word in before if word not in (FACT, LAST)]
            begins_sentence = not words_before or words_before[-1] in restricted.sentence_ends
            text_before, text, references = self._text(words_before), self._text(fact), self._references
            if len(self._subjects) > 1:
                unnamed = fact_subjects - references.named_subjects(text)
                if unnamed and not unnamed <= references.implied_subjects(
                    text_before, text, begins_sentence, previous_subjects
                ):
                    return False
                if references.has_wrong_antecedent(text, triples):
                    return False
            elif not begins_sentence and references.continues_another_name(text_before, text):
                return False
            return (
                passes_without_context(fact, begins_sentence)
                and starts_correctly(text_before, text, begins_sentence, entities)
                and self._grammar.completes_sentences(text_before, text)
                and (begins_sentence or not self._grammar.runs_on(text_before, text))
                and not (is_last and checker.unnamed_subjects(self.record, self._text([*words_before, *fact])))
                and self._expresses_predicates(group, self._open_sentence(words_before), fact)
            )

        return Constraint(
            frozenset(forbidden),
            tuple(value_spellings),
            frozenset(paraphrasable),
            frozenset(value_only),
            lambda fact, before: judge(tuple(fact), tuple(before)),
            lambda: self._fallback(group),
            restricted.full_stop,
            self._can_end_sentence,
            restricted.sentence_ends,
        )

    def _open_sentence(self, words: Sequence[int]) -> Spelling:
        ends = [number for number, word in enumerate(words, start=1) if word in self.restricted.sentence_ends]
        return tuple(words[max(ends, default=0) :])

    def _expresses_predicates_of(self, group: frozenset[int], open_sentence: Spelling, fact: Spelling) -> bool:
        """Whether a fact has cues of its predicates, no cue of other predicates only, and no name in a wrong role."""
        lexicon = self.restricted.checker.lexicon
        triples = [self.record.triples[index] for index in group]
        predicates = {triple.predicate for triple in triples}
        foreign = {
            word.form
            for word in words(self._text(fact))
            if word.form in lexicon.predicates_of and predicates.isdisjoint(lexicon.predicates_of[word.form])
        }
        if not foreign and predicates.isdisjoint(lexicon.cues) and not lexicon.roles_after:
            return True
        text = MatchedText.by_rule(self.record, self._text([*open_sentence, *fact]))
        return (
            foreign.isdisjoint(foreign_words(text, lexicon.predicates_of, predicates))
            and not any(triple in triples for triple in triples_without_cue(text, lexicon.cues))
            and not wrong_roles(text, lexicon.roles_after, lexicon.contexts)
        )

    def _can_end_sentence(self, words: Sequence[int]) -> bool:
        """Whether a full stop makes these words grammatical sentences, after `drop_unfinished`."""
        tokens = self.restricted.vocabulary.decode(words, self.extras, self.record)
        drop_unfinished(tokens)
        return self._grammar.completes_sentences("", f"{detokenise(tokens)}.")

    def _only_in_values(self, word: int) -> bool:
        """Whether a word is out of vocabulary, or restricted, or neither a function word nor an ordinary word."""
        if word >= len(self.restricted.vocabulary) or word in self.restricted.normal_forms:
            return True
        tokens = words(self.restricted.vocabulary.words[word].strip(JOINER))
        lower = self.restricted.checker.lexicon.lower
        return bool(tokens) and tokens[0].form not in FUNCTION_WORDS and tokens[0].form not in lower

    def _spellings_of(self, triple: Triple) -> tuple[Spelling, ...]:
        """The spellings of the object as word ids; none for truth values, which are expressed by phrases."""
        wordings = self.restricted.checker.wordings(triple)
        literal = next((wording for wording in wordings if wording.kind == "literal"), None)
        if literal is None:
            return ()
        texts = [*spellings(triple.object), *self.restricted.checker.lexicon.variants.get(triple.object, ())]
        if not literal.exact:
            texts += [variant for text in texts for variant in _spelling_variants(text)]
        return tuple(dict.fromkeys(ids for text in dict.fromkeys(texts) if (ids := self._encode(text))))

    def _encode(self, text: str, extend: bool = False) -> Spelling | None:
        """The ids of a text's words. If a word has none, it becomes an extra (with `extend`), or the result is None."""
        vocabulary = self.restricted.vocabulary
        ids = []
        for token in tokenise(text):
            word = self.restricted.ids.get(token.text, self._extra_ids.get(token.text))
            if word is None and not extend:
                return None
            if word is None:
                word = self._extra_ids[token.text] = len(vocabulary) + len(self.extras)
                self.extras.append(token.text)
            ids.append(word)
        return tuple(ids)

    def _text(self, ids: Sequence[int]) -> str:
        return detokenise(self.restricted.vocabulary.decode(ids, self.extras, self.record))


def _spelling_variants(text: str) -> Iterator[str]:
    """Spellings without article or trailing zeros, with thousands separators, or with another capitalisation."""
    number = _FINAL_ZEROS.sub("", text)
    for variant in (text, _ARTICLE.sub("", text), number, _THOUSANDS.sub(",", number)):
        yield from (variant, variant.lower(), variant[:1].lower() + variant[1:], variant[:1].upper() + variant[1:])


def drop_unfinished(tokens: list[str]) -> None:
    """Removes words at the end that cannot end a sentence, in place."""
    while len(tokens) > 1 and tokens[-1] in _NEVER_LAST:
        tokens.pop()
