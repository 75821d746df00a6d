"""Triples, records, references, facts, groups and plans, and their text forms.

A *record* is a set of *triples* with zero or more *reference* texts. A reference may be segmented into *facts*
(contiguous segments of the text that concatenate to it exactly). A *group* (`State`, the paper's state) is an ordered
tuple of the record's predicates that share one fact; a *plan* is a sequence of groups in which every predicate of the
record occurs exactly once. Plans are written ``[eatType] [near customerRating]`` (AggGen, ACL 2021, section 3.5); a
predicate with white space, brackets or quotes is written as a JSON string: ``["customer rating" near]``.

If a predicate occurs twice in a record, the second is made unique by a suffix (``isPartOf``, ``isPartOf_2``), so each
predicate identifies one triple of the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agggen.errors import PlanError, RecordError

NO_SUBJECT = ""  # the subject of triples without a subject: ``["", "eatType", "pub"]``

State = tuple[str, ...]  # an ordered group of distinct predicates that are verbalised in one fact

_BARE_PREDICATE = re.compile(r"[^\s\[\]\"]+")
_PLAN_TOKEN = re.compile(r'[\[\]]|(?P<quoted>"(?:[^"\\]|\\.)*"?)|[^\s\[\]"]+')
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def _clean(value: object, name: str) -> str:
    """`value` without surrounding white space; raises RecordError, with `name`, if empty or invalid."""
    if not isinstance(value, str):
        raise RecordError(f"{name} must be a string, not {type(value).__name__} ({value!r:.60})")
    if match := _CONTROL.search(value):
        raise RecordError(f"{name} contains the control character {match.group()!r} at position {match.start()}")
    if not value.strip():
        raise RecordError(f"{name} is empty")
    return value.strip()


@dataclass(frozen=True, slots=True)
class Triple:
    """Subject, predicate and object; only the subject may be empty (`NO_SUBJECT`)."""

    subject: str
    predicate: str
    object: str

    def __post_init__(self) -> None:
        if self.subject != NO_SUBJECT:
            object.__setattr__(self, "subject", _clean(self.subject, 'the triple\'s subject ("" for none)'))
        for name in ("predicate", "object"):
            object.__setattr__(self, name, _clean(getattr(self, name), f"the triple's {name}"))

    @classmethod
    def of(cls, parts: Any) -> Triple:
        """Reads ``[subject, predicate, object]``, or a mapping with these keys; RecordError for anything else."""
        if isinstance(parts, Mapping):
            if missing := [key for key in ("subject", "predicate", "object") if key not in parts]:
                raise RecordError(f"a triple lacks {', '.join(missing)}; it needs subject, predicate and object")
            return cls(parts["subject"], parts["predicate"], parts["object"])
        if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
            raise RecordError(f"a triple must be [subject, predicate, object], not {parts!r:.80}")
        if len(parts) != 3:
            problem = f"this has {len(parts)}: {parts!r:.80}"
            raise RecordError(f"a triple needs 3 parts (subject, predicate, object), {problem}")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.subject} | {self.predicate} | {self.object}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A sequence of groups. ``str(plan)`` and ``Plan.parse`` are inverse to each other."""

    states: tuple[State, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", tuple(tuple(state) for state in self.states))
        seen: set[str] = set()
        for number, state in enumerate(self.states, start=1):
            if not state:
                raise PlanError(f"group {number} of the plan is empty")
            for predicate in state:
                if predicate in seen:
                    raise PlanError(f"the plan has {predicate!r} twice; every predicate belongs to exactly one group")
                seen.add(predicate)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Reads ``[eatType] [near customerRating]``; a predicate with spaces, brackets or quotes is a JSON string.

        Raises PlanError, with the column (from 1) of the first error, if the text is not a plan.
        """
        groups: list[list[str]] = []
        open_bracket: int | None = None

        def fail(message: str, position: int) -> NoReturn:
            raise PlanError(f"column {position + 1} of plan {text!r:.200}: {message}")

        for match in _PLAN_TOKEN.finditer(text):
            token, position = match.group(), match.start()
            if token == "[":
                if open_bracket is not None:
                    fail("groups cannot be nested; close the previous group with ']' first", position)
                open_bracket = position
                groups.append([])
            elif open_bracket is None:
                fail(f"expected '[', found {token[0]!r}", position)
            elif token == "]":
                if not groups[-1]:
                    fail("this group is empty", open_bracket)
                open_bracket = None
            else:
                predicate = token
                if match["quoted"]:
                    try:
                        predicate = json.loads(token)
                    except json.JSONDecodeError:
                        fail("a quoted predicate must be a JSON string", position)
                    if not predicate.strip():
                        fail("the predicate is empty", position)
                if any(predicate in group for group in groups):
                    fail(f"{predicate!r} occurs a second time; every predicate belongs to one group", position)
                groups[-1].append(predicate)
        if open_bracket is not None:
            fail("this group is never closed with ']'", open_bracket)
        if not groups:
            raise PlanError("the plan is empty; write for example [eatType] [near customerRating]")
        return cls(tuple(map(tuple, groups)))

    @property
    def predicates(self) -> tuple[str, ...]:
        """All predicates, in the order of the plan."""
        return tuple(predicate for state in self.states for predicate in state)

    def __str__(self) -> str:
        return " ".join("[" + " ".join(_quote(predicate) for predicate in state) + "]" for state in self.states)


def _quote(predicate: str) -> str:
    return predicate if _BARE_PREDICATE.fullmatch(predicate) else json.dumps(predicate, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """A segment of a reference text, with the predicates of the triples that it verbalises; None if unknown."""

    text: str
    predicates: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A text for a record, with its facts and plan if known.

    The facts' texts concatenate exactly to `text`. The plan is the order and grouping of the triples in the text; it
    may be known although the facts are not (in WebNLG 1.6, which annotates the triples of each sentence).
    """

    text: str
    facts: tuple[Fact, ...] | None = None
    plan: Plan | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise RecordError("a reference text is empty")
        if self.facts is not None and "".join(fact.text for fact in self.facts) != self.text:
            raise RecordError(f"the facts do not concatenate to the reference text {self.text!r:.80}")


@dataclass(frozen=True, slots=True)
class Record:
    """One or more triples to be verbalised, with an id, reference texts and, in some corpora, a category."""

    id: str
    triples: tuple[Triple, ...]
    references: tuple[Reference, ...] = ()
    category: str | None = None
    predicates: tuple[str, ...] = field(init=False)
    """One unique name per triple, in the order of the triples (``isPartOf``, ``isPartOf_2``)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _clean(self.id, "the record's id"))
        if not self.triples:
            raise RecordError(f"record {self.id!r} has no triples; it needs at least one")
        object.__setattr__(self, "predicates", unique_predicates(triple.predicate for triple in self.triples))
        for reference in self.references:
            mentioned: list[str] = list(reference.plan.predicates) if reference.plan else []
            mentioned += [name for fact in reference.facts or () for name in fact.predicates or ()]
            if unknown := sorted(set(mentioned) - set(self.predicates)):
                problem = f"a reference names {unknown[0]!r}, which is not one of its predicates"
                raise RecordError(f"record {self.id!r}: {problem}")

    @classmethod
    def of(cls, data: object, default_id: str | None = None) -> Record:
        """Reads ``{"id", "triples": [[s, p, o], ...], "references": [...], "category"}``.

        A reference is a string or ``{"text", "facts": [...], "plan": "[a] [b c]"}``; a fact is a string or
        ``{"text", "predicates"}``. Raises RecordError, which names the key, if `data` has another form.
        """
        if not isinstance(data, Mapping):
            raise RecordError(f"a record must be an object with id and triples, not {type(data).__name__}")
        if unknown := sorted(set(data) - {"id", "triples", "references", "category"}):
            raise RecordError(f"unknown key {unknown[0]!r}; a record has id, triples, references, category")
        identifier = data.get("id", default_id)
        if identifier is None:
            raise RecordError("the record has no id")
        identifier = str(identifier) if isinstance(identifier, int) else _clean(identifier, "the record's id")
        triples = data.get("triples")
        if not isinstance(triples, Sequence) or isinstance(triples, str):
            raise RecordError(f"record {identifier!r}: 'triples' must be a list of [subject, predicate, object]")
        try:
            references = tuple(_reference(item) for item in _list(data.get("references"), "references"))
            category = data.get("category")
            if category is not None and not isinstance(category, str):
                raise RecordError(f"the category must be a string, not {type(category).__name__}")
            return cls(identifier, tuple(Triple.of(parts) for parts in triples), references, category)
        except (RecordError, PlanError) as error:
            location = "" if repr(identifier) in str(error) else f"record {identifier!r}: "
            raise RecordError(f"{location}{error}") from error

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON types, inverse of :meth:`of`; absent parts are omitted."""
        data: dict[str, Any] = {"id": self.id, "triples": [[t.subject, t.predicate, t.object] for t in self.triples]}
        if self.references:
            data["references"] = [_reference_as_json(reference) for reference in self.references]
        if self.category is not None:
            data["category"] = self.category
        return data


def _with_text(item: object, expected: str) -> Mapping[str, Any]:
    """`item` as a mapping with the key ``text``; a string is the ``text``. `expected` names `item` in the error."""
    data = {"text": item} if isinstance(item, str) else item
    if not isinstance(data, Mapping) or not isinstance(data.get("text"), str):
        raise RecordError(f"{expected} must be a string or an object with 'text'")
    return data


def _reference(item: object) -> Reference:
    data = _with_text(item, "a reference")
    facts, plan = data.get("facts"), data.get("plan")
    if plan is not None and not isinstance(plan, str):
        raise RecordError(f"a plan must be written as a string, not as {type(plan).__name__}")
    return Reference(
        data["text"],
        None if facts is None else tuple(_fact(fact) for fact in _list(facts, "facts")),
        None if plan is None else Plan.parse(plan),
    )


def _fact(item: object) -> Fact:
    data = _with_text(item, "a fact")
    predicates = data.get("predicates")
    if predicates is not None and not all(isinstance(name, str) for name in _list(predicates, "predicates")):
        raise RecordError("the predicates of a fact must be strings")
    return Fact(data["text"], None if predicates is None else tuple(predicates))


def _list(value: object, key: str) -> Sequence[Any]:
    """`value` if it is a list, ``()`` if it is None; raises RecordError for other values."""
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise RecordError(f"'{key}' must be a list, not {type(value).__name__}")
    return value


def _reference_as_json(reference: Reference) -> str | dict[str, Any]:
    if reference.facts is None and reference.plan is None:
        return reference.text
    data: dict[str, Any] = {"text": reference.text}
    if reference.facts is not None:
        data["facts"] = [
            fact.text if fact.predicates is None else {"text": fact.text, "predicates": list(fact.predicates)}
            for fact in reference.facts
        ]
    if reference.plan is not None:
        data["plan"] = str(reference.plan)
    return data


def unique_predicates(predicates: Iterable[str]) -> tuple[str, ...]:
    """Makes names unique: the second ``isPartOf`` becomes ``isPartOf_2``, and so on."""
    originals = list(predicates)
    used_names = set(originals)
    names: list[str] = []
    counts: dict[str, int] = {}  # the last suffix of each predicate
    for predicate in originals:
        name, count = predicate, counts.get(predicate, 0) + 1
        if count > 1:
            while (name := f"{predicate}_{count}") in used_names:
                count += 1
            used_names.add(name)
        counts[predicate] = count
        names.append(name)
    return tuple(names)
