"""From a plan to a text: sentences of one to three facts, each fact one clause that says one state.

Clauses are combined as people combine them: coordination, relative clauses, apposition, participles before and after,
and new sentences whose subject is the name, a pronoun or "the metal". Where two facts meet in a sentence, the
comma, "and" and the white space belong to the earlier fact; "which", "whose" and "it" open the later one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from agggen.corpora.elements.dice import Dice
from agggen.corpora.elements.phrases import DISCOVERY, Form, forms
from agggen.corpora.elements.plans import sample_plan
from agggen.records import Fact, Plan, Reference, State

_POSSESSIVE = re.compile(r"\{its ([^}]+)\}")

States = tuple[State, ...]
Options = Sequence[tuple[Callable[[States], list[str] | None], float]]
"""Weighted patterns; each writes states as pieces of text, or returns None if a state lacks the frame it needs."""


def write(name: str, values: Mapping[str, str], dice: Dice) -> Reference:
    """A text about the element `name` that says each of `values` once, with its facts and its plan.

    Args:
        values: predicate -> object of the triples to be said.
    """
    plan = sample_plan(values, dice)
    pieces = _Writer(name.lower(), values, dice).text(plan)
    facts = tuple(Fact(piece, state) for piece, state in zip(pieces, plan.states, strict=True))
    return Reference("".join(pieces), facts, plan)


class _Writer:
    """The writer of one text: remembers what was said so far."""

    def __init__(self, name: str, values: Mapping[str, str], dice: Dice) -> None:
        self.name = name
        self.values = values
        self.dice = dice
        self.introduced = False
        self.distant = False
        """The sentence before was about "the name of gold" or its discoverer, so "it" would be misread."""
        self.last_noun = name
        self.class_noun: str | None = None
        """What else the element may be called by now, because the text has said so: metal, gas."""

    def text(self, plan: Plan) -> list[str]:
        pieces: list[str] = []
        rest: States = plan.states
        while rest:
            sentence = self._sentence(rest)
            self.distant = not self.introduced and sentence[0].startswith(("the ", "it was "))
            said, rest = rest[: len(sentence)], rest[len(sentence) :]
            sentence[0] = sentence[0][0].upper() + sentence[0][1:]
            sentence[-1] += ". " if rest else "."
            pieces += sentence
            self.introduced = True
            for state in said:
                self.class_noun = _class_noun(state, self.values) or self.class_noun
        return pieces

    def _sentence(self, rest: States) -> list[str]:
        """The pieces of a sentence, without its full stop, that says the first one to three states of `rest`."""
        sizes = [pair for pair in ((1, 4.0), (2, 5.0), (3, 2.5)) if pair[0] <= len(rest)]
        aside = 0.4 if self.introduced else 2.0  # an aside needs the name, which sounds natural once
        patterns: dict[int, Options] = {
            1: [(self._main, 3.0), (self._clause, 2.0)],
            2: [
                (self._main, 8.0),
                (self._two_clauses, 1.5),
                (self._fronted, 2.0),
                (self._apposition, aside),
                (self._inner_relative, aside / 3),
            ],
            3: [
                (self._main, 3.0),
                (self._fronted, 1.5),
                (self._apposition, aside),
                (self._inner_relative, aside / 3),
            ],
        }
        for size in range(self.dice.weighted(sizes), 0, -1):
            if pieces := self._first_of(patterns[size], rest[:size]):
                return pieces
        raise AssertionError(f"no pattern says {rest[0]}")  # _main says every expressible state

    def _first_of(self, options: Options, states: States) -> list[str] | None:
        """What a pattern drawn by weight writes; another is drawn where one does not fit; None where none does."""
        left = list(options)
        while left:
            chosen = self.dice.weighted([(index, weight) for index, (_, weight) in enumerate(left)])
            if pieces := left.pop(chosen)[0](states):
                return pieces
        return None

    # --- words -----------------------------------------------------------------------------------------------------

    def _subject(self) -> str:
        if not self.introduced:
            return self.name
        nouns = [("it", 0.0 if self.distant else 6.0), ("the element", 1.2), (self.name, 0.4)]
        if self.class_noun:
            nouns.append((f"the {self.class_noun}", 2.5))
        # nobody repeats "the element" in the next sentence; "it" bears repetition
        subject = self.dice.weighted([pair for pair in nouns if pair[0] == "it" or pair[0] != self.last_noun])
        self.last_noun = subject
        return subject

    def _filled(self, clause: str, introduced: bool) -> str:
        """`clause` with the element filled in: "its symbol", or "the symbol of gold" where that is unclear."""
        if introduced:
            return _POSSESSIVE.sub(r"its \1", clause).replace("{it}", "it")
        return _POSSESSIVE.sub(rf"the \1 of {self.name}", clause).replace("{it}", self.name)

    def _form(
        self, state: State, frame: str, *, nominal: bool = False, opening: bool = False, unlike: str = ""
    ) -> Form | None:
        """A form of `state` in this frame, if it has one; rather one that does not start with the verb of `unlike`."""
        introduce = opening and not self.introduced and "category" not in self.values
        found = [form for form in forms(state, self.values, self.dice, introduce) if form.frame == frame]
        found = [form for form in found if form.nominal or not nominal]
        if self.introduced:  # "it was Davy who discovered it" has one "it" too many
            found = [form for form in found if not form.text.startswith("it was ")]
        varied = [form for form in found if form.text.split()[0] != unlike.partition(" ")[0]]
        return self.dice.pick(varied or found) if found else None

    def _verb_phrase(self, state: State, *, opening: bool = False, unlike: str = "") -> str:
        form = self._form(state, "vp", opening=opening, unlike=unlike)
        assert form is not None, f"no verb phrase says {state}"
        return form.text

    # --- the main clause and what follows it -----------------------------------------------------------------------

    def _main(self, states: States) -> list[str] | None:
        return self._predicated(self._subject(), states, opening=True)

    def _said(self, subject: str, verb_phrase: str) -> str:
        """Subject and predicate, but not "the element is a d-block element"."""
        if subject == "the element" and " element " in f"{verb_phrase} ":
            subject = self.name
        return f"{subject} {verb_phrase}"

    def _predicated(self, subject: str, states: States, *, opening: bool = False) -> list[str] | None:
        """`subject` and a predicate of one clause a state: coordinated, or hung on the first with "which"."""
        first, *others = states
        if not others:
            return [self._said(subject, self._verb_phrase(first, opening=opening))]
        nominal = self._form(first, "vp", nominal=True, opening=opening)
        tails: list[tuple[Callable[[States], list[str] | None], float]] = [
            (lambda rest: self._coordinated(subject, first, rest, opening), 3.0)
        ]
        if nominal is not None:
            tails.append((lambda rest: self._relative(subject, nominal, rest), 3.0))
            tails.append((lambda rest: self._whose(subject, nominal, rest), 1.0))
            tails.append((lambda rest: self._participle(subject, nominal, rest), 2.0))
        return self._first_of(tails, tuple(others))

    def _coordinated(self, subject: str, first: State, rest: States, opening: bool) -> list[str] | None:
        if first[0] in DISCOVERY and rest[0][0] in DISCOVERY:  # "was discovered in 1898 and was discovered by"
            return None
        said = self._verb_phrase(first, opening=opening)
        second = self._verb_phrase(rest[0], unlike=said)
        if len(rest) == 1:
            if " and " in said:  # a bare "and" would seem to go on with the list
                return [f"{self._said(subject, said)}, and ", f"it {second}"]
            return [f"{self._said(subject, said)} and ", second]
        if " and " in said + second:
            return None
        return [f"{self._said(subject, said)}, ", f"{second} and ", self._verb_phrase(rest[1], unlike=second)]

    def _relative(self, subject: str, nominal: Form, rest: States) -> list[str] | None:
        said = self._verb_phrase(rest[0], unlike=nominal.text)
        if len(rest) == 1:
            return [f"{self._said(subject, nominal.text)}, ", f"which {said}"]
        if " and " in said:
            return None
        return [f"{self._said(subject, nominal.text)}, ", f"which {said} and ", self._verb_phrase(rest[1], unlike=said)]

    def _whose(self, subject: str, nominal: Form, rest: States) -> list[str] | None:
        form = self._form(rest[0], "clause")
        if form is None or len(rest) > 1 or not form.text.startswith("{its "):
            return None
        return [f"{self._said(subject, nominal.text)}, ", _POSSESSIVE.sub(r"whose \1", form.text)]

    def _participle(self, subject: str, nominal: Form, rest: States) -> list[str] | None:
        form = self._form(rest[0], "part")
        if form is None or len(rest) > 1:
            return None
        return [self._said(subject, nominal.text) + (" " if nominal.bare else ", "), form.text]

    # --- clauses with a subject of their own -----------------------------------------------------------------------

    def _clause(self, states: States) -> list[str] | None:
        form = self._form(states[0], "clause")
        return None if form is None else [self._filled(form.text, self.introduced and not self.distant)]

    def _two_clauses(self, states: States) -> list[str] | None:
        first, second = (self._form(state, "clause") for state in states)
        if first is None:
            return None
        opened = self._filled(first.text, self.introduced and not self.distant)
        if opened.startswith(("the discovery of ", "the name of ")):  # a following "it" or "its" would be misread
            return None
        if second is None or not second.text.startswith("{"):
            subject = "it" if self.introduced else "the element"
            return [f"{opened}, and ", self._said(subject, self._verb_phrase(states[1]))]
        return [f"{opened}, and ", self._filled(second.text, introduced=True)]

    # --- what stands before the main verb --------------------------------------------------------------------------

    def _fronted(self, states: States) -> list[str] | None:
        form = self._form(states[0], self.dice.weighted((("part", 2.0), ("with", 1.0))))
        main = self._predicated(self._subject(), states[1:])
        return None if form is None or main is None else [f"{form.text}, ", *main]

    def _apposition(self, states: States) -> list[str] | None:
        form = self._form(states[0], "np", opening=True)
        return None if form is None else self._after_aside(form.text, states[1:])

    def _inner_relative(self, states: States) -> list[str] | None:
        return self._after_aside(f"which {self._verb_phrase(states[0])}", states[1:])

    def _after_aside(self, aside: str, states: States) -> list[str] | None:
        """The name with an aside, which is a fact of its own; the predicate after it is the next fact."""
        main = self._predicated("", states)
        return None if main is None else [f"{self.name}, {aside}, ", main[0].lstrip(), *main[1:]]


def _class_noun(state: State, values: Mapping[str, str]) -> str | None:
    """ "metal" or "gas" where `state` tells a reader that the element is one."""
    category = values["category"] if "category" in state else ""
    if category.endswith(" metal") or category in ("lanthanide", "actinide"):
        return "metal"
    if category == "noble gas" or ("stateAtRoomTemperature" in state and values["stateAtRoomTemperature"] == "gas"):
        return "gas"
    return None
