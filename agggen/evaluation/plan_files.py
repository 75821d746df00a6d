"""Files of plans and of alignments, as JSON lines, matched with their gold by id.

A plan: ``{"id": "7", "plan": "[leader capital] [currency]"}``. A gold file may hold several lines of one id, one a
person. ``[]`` is a fact that says no triple. A predicate may be in no group at all; where no gold line of its id places
it either, ``"predicates": ["leader", ...]`` on a gold line tells that the record has it.

An alignment adds the facts of the text, one a group: ``"facts": ["Rome, led by Ann,", "is pretty and", "uses the
euro."]``. Of several facts that say one predicate the last counts (as in the published numbers). A record's several
texts have ids of their own, or one id and a ``"reference"`` number, or one id and are told apart by their words.

Keys that are not named here are not looked at, so what `agggen generate`, `plan` and `align` write can be scored as
it is: a list of ``"plans"``, best first, stands for its first plan; facts that are objects with ``"predicates"`` need
no plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agggen.errors import CorpusError, PlanError
from agggen.evaluation.alignments import positions
from agggen.evaluation.files import json_objects
from agggen.records import Plan, State, parse_groups


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One line of a file; its groups are in the order of the facts, empty ones included."""

    file: Path
    line: int
    id: str
    reference: int | None
    groups: tuple[State, ...]
    facts: tuple[str, ...]
    predicates: frozenset[str]
    """What the record has: those that the groups name, and those under "predicates"."""

    @property
    def place(self) -> str:
        """Where an error about this line is."""
        reference = "" if self.reference is None else f", reference {self.reference}"
        return f"{self.file}, line {self.line}, id {self.id!r}{reference}"

    @property
    def plan(self) -> Plan:
        """The groups that say something."""
        return Plan(tuple(group for group in self.groups if group))

    def fail(self, message: str) -> NoReturn:
        """Raises a CorpusError that names the line."""
        raise CorpusError(f"{self.place}: {message}")


@dataclass(frozen=True, slots=True)
class PlansToScore:
    """Plans and the gold plans of the same ids, in the order in which the gold file first names the ids."""

    ids: tuple[str, ...]
    plans: tuple[Plan, ...]
    references: tuple[tuple[Plan, ...], ...]
    predicates: tuple[tuple[str, ...], ...]
    """All that a plan of the id may name, in alphabetical order."""


@dataclass(frozen=True, slots=True)
class AlignmentsToScore:
    """The fact of each predicate of each text, found and gold, in the order of the gold file."""

    predicted: tuple[Mapping[str, int], ...]
    gold: tuple[Mapping[str, int], ...]
    rephrased: tuple[str, ...]
    """Ids of texts whose facts read otherwise in the two files, beyond case and spacing."""
    repeated: tuple[str, ...]
    """Ids of texts in which two facts are found to say one predicate."""


def read_plan_lines(file: Path, alignments: bool = False) -> list[PlanLine]:
    """All lines of a file.

    Args:
        alignments: every line must have facts, as many as groups, and a predicate may be in several.

    Raises:
        CorpusError: the file cannot be read, or a line is not what it should be; names the line and the id.
    """
    lines = [_plan_line(file, number, data, alignments) for number, data in json_objects(file)]
    if not lines:
        raise CorpusError(f"{file} holds no line")
    return lines


def _plan_line(file: Path, number: int, data: Mapping[str, Any], alignments: bool) -> PlanLine:
    place = f"{file}, line {number}"
    identifier = data.get("id")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or not str(identifier).strip():
        raise CorpusError(f"{place}: needs an 'id', a text or a whole number")
    identifier = str(identifier).strip()
    place += f", id {identifier!r}"
    reference = data.get("reference")
    if reference is not None and (isinstance(reference, bool) or not isinstance(reference, int)):
        raise CorpusError(f"{place}: 'reference' must be a whole number, the reference text's")
    texts, named = _facts(place, data.get("facts"))
    try:
        groups = _groups(place, data, named, alignments)
    except PlanError as error:
        raise CorpusError(f"{place}: {error}") from error
    if alignments and not texts:
        raise CorpusError(f"{place}: needs 'facts', the pieces of the text that the groups belong to")
    if alignments and len(texts) != len(groups):
        counts = f"{len(groups)} groups but {len(texts)} facts"
        raise CorpusError(f"{place}: {counts}; write one group a fact, [] for one that says no triple")
    others = data.get("predicates", [])
    if not _strings(others):
        raise CorpusError(f"{place}: 'predicates' must be a list of texts, the record's predicates")
    names = frozenset(name for group in groups for name in group) | frozenset(others)
    return PlanLine(file, number, identifier, reference, groups, texts, names)


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _facts(place: str, facts: object) -> tuple[tuple[str, ...], tuple[State, ...] | None]:
    """The texts of the facts, and their predicates where the facts are objects."""
    if facts is None:
        return (), None
    if _strings(facts):
        return tuple(facts), None  # type: ignore[arg-type]
    if isinstance(facts, list) and all(isinstance(fact, Mapping) for fact in facts):
        named = [fact.get("predicates") for fact in facts]
        texts = [fact.get("text") for fact in facts]
        if all(map(_strings, named)) and _strings(texts):
            return tuple(texts), tuple(map(tuple, named))
    raise CorpusError(f"{place}: 'facts' must be a list of texts, or of objects with 'text' and 'predicates'")


def _groups(place: str, data: Mapping[str, Any], named: tuple[State, ...] | None, repeats: bool) -> tuple[State, ...]:
    plan, plans = data.get("plan"), data.get("plans")
    if plan is None and isinstance(plans, list) and plans:
        best = plans[0]
        plan = best.get("plan") if isinstance(best, Mapping) else best
    if plan is None and named is not None:
        plan = " ".join("[" + " ".join(json.dumps(name) for name in group) + "]" for group in named)
    if not isinstance(plan, str):
        raise CorpusError(f"{place}: needs a 'plan', written like '[eatType] [near customerRating]'")
    groups = parse_groups(plan, empty=True, repeats=repeats)
    if not groups:
        raise PlanError("the plan is empty; write for example [eatType] [near customerRating], or [] for no triple")
    return groups


def read_plans(gold: Path, plans: Path) -> PlansToScore:
    """A system's plans, one an id, with the gold plans of the same ids.

    Raises:
        CorpusError: a file cannot be read; ids are missing, extra or (in `plans`) repeated; a plan names a predicate
            that the gold of its id does not have. Names file, line and id.
    """
    references: dict[str, list[PlanLine]] = {}
    for line in read_plan_lines(gold):
        references.setdefault(line.id, []).append(line)
    predicates = {
        name: tuple(sorted(frozenset().union(*(x.predicates for x in of)))) for name, of in references.items()
    }
    for name, of in references.items():
        if not predicates[name]:
            of[0].fail("no gold line of this id names a predicate")
    found: dict[str, PlanLine] = {}
    for line in read_plan_lines(plans):
        if line.id not in references:
            line.fail(f"{gold} has no such id")
        if line.id in found:
            line.fail(f"line {found[line.id].line} has the same id")
        _check_predicates(line, predicates[line.id])
        found[line.id] = line
    _check_complete(plans, [of[0] for name, of in references.items() if name not in found], "plan")
    return PlansToScore(
        ids=tuple(references),
        plans=tuple(found[name].plan for name in references),
        references=tuple(tuple(line.plan for line in of) for of in references.values()),
        predicates=tuple(predicates.values()),
    )


def read_alignments(gold: Path, predicted: Path) -> AlignmentsToScore:
    """Alignments, with the gold alignments of the same texts.

    Raises:
        CorpusError: a file cannot be read; texts are missing, extra or repeated; a text is cut into another number of
            facts than the gold's; a line names a predicate that the gold of its text does not have. Names file, line
            and id.
    """
    expected: dict[tuple[str, int | None], list[PlanLine]] = {}
    for line in read_plan_lines(gold, alignments=True):
        of = expected.setdefault((line.id, line.reference), [])
        if twin := next((other for other in of if _said(other) == _said(line)), None):
            line.fail(f"line {twin.line} has the same id and the same text")
        of.append(line)
    predicates: dict[str, set[str]] = {}
    for (name, _), of in expected.items():
        predicates.setdefault(name, set()).update(*(line.predicates for line in of))
    found: dict[int, PlanLine] = {}  # by the line of the gold
    rephrased: list[str] = []
    for line in read_plan_lines(predicted, alignments=True):
        theirs = _gold_of(line, expected.get((line.id, line.reference), []), gold)
        if theirs.line in found:
            line.fail(f"line {found[theirs.line].line} aligns the same text")
        if len(line.facts) != len(theirs.facts):
            line.fail(
                f"the text has {len(line.facts)} facts here but {len(theirs.facts)} in {gold}, line {theirs.line}"
            )
        _check_predicates(line, sorted(predicates[line.id]))
        if any(_folded(a) != _folded(b) for a, b in zip(line.facts, theirs.facts, strict=True)):
            rephrased.append(line.id)
        found[theirs.line] = line
    texts = [line for of in expected.values() for line in of]
    _check_complete(predicted, [line for line in texts if line.line not in found], "alignment")
    ours = [found[line.line] for line in texts]
    return AlignmentsToScore(
        predicted=tuple(positions(line.groups) for line in ours),
        gold=tuple(positions(line.groups) for line in texts),
        rephrased=tuple(rephrased),
        repeated=tuple(line.id for line in ours if sum(map(len, line.groups)) > len(positions(line.groups))),
    )


def _gold_of(line: PlanLine, candidates: Sequence[PlanLine], gold: Path) -> PlanLine:
    """The gold line of the text; several texts of one id are told apart by their words."""
    if not candidates:
        line.fail(f"{gold} has no such " + ("id" if line.reference is None else "id and reference"))
    if len(candidates) == 1:
        return candidates[0]
    for candidate in candidates:
        if _said(candidate) == _said(line):
            return candidate
    line.fail(f"{gold} has {len(candidates)} texts of this id, and the facts are those of none of them")


def _said(line: PlanLine) -> str:
    return _folded("".join(line.facts))


def _folded(text: str) -> str:
    """The text without case and spacing, in which systems' tokenised copies differ."""
    return "".join(text.split()).casefold()


def _check_predicates(line: PlanLine, known: Sequence[str]) -> None:
    if unknown := sorted(line.predicates - set(known)):
        line.fail(f"the gold of this id has no predicate {unknown[0]!r}; it has {', '.join(known)}")


def _check_complete(file: Path, missing: Sequence[PlanLine], what: str) -> None:
    if missing:
        more = f", nor for {len(missing) - 1} other lines" if len(missing) > 1 else ""
        raise CorpusError(f"{file} has no {what} for {missing[0].place}{more}")
