"""Reads plans and alignments from JSON lines and matches them with gold plans and alignments by id.

A plan is ``{"id": "7", "plan": "[leader capital] [currency]"}``. A gold file may have several lines per id, one per
annotator. ``[]`` is a fact without triples. A plan may omit predicates; if all gold plans of an id omit a predicate,
``"predicates": ["leader", ...]`` in a gold line declares it.

An alignment also has the facts of the text, one per group: ``"facts": ["Rome, led by Ann,", "is pretty and", "uses the
euro."]``. If several facts have a predicate, the last one counts (as in the published numbers). Several texts of a
record have different ids, the same id and a ``"reference"`` number, or the same id and different words.

Other keys are ignored, so the output of `agggen generate`, `plan` and `align` can be scored directly: of a list of
``"plans"``, the first (best) is used; facts that are objects with ``"predicates"`` need no plan.
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
    """One line of a file. The groups are in the order of the facts and may be empty."""

    file: Path
    line: int
    id: str
    reference: int | None
    groups: tuple[State, ...]
    facts: tuple[str, ...]
    predicates: frozenset[str]
    """The record's predicates as far as this line has them: in groups or under "predicates"."""

    @property
    def place(self) -> str:
        """File, line and id, for messages."""
        reference = "" if self.reference is None else f", reference {self.reference}"
        return f"{self.file}, line {self.line}, id {self.id!r}{reference}"

    @property
    def plan(self) -> Plan:
        """The non-empty groups."""
        return Plan(tuple(group for group in self.groups if group))

    def fail(self, message: str) -> NoReturn:
        """Raises a CorpusError that names the line."""
        raise CorpusError(f"{self.place}: {message}")


@dataclass(frozen=True, slots=True)
class PlansToScore:
    """Plans with the gold plans of the same ids, in the order of the gold file."""

    ids: tuple[str, ...]
    plans: tuple[Plan, ...]
    references: tuple[tuple[Plan, ...], ...]
    predicates: tuple[tuple[str, ...], ...]
    """All predicates that a plan of the id may have, in alphabetical order."""


@dataclass(frozen=True, slots=True)
class AlignmentsToScore:
    """Predicted and gold fact of each predicate of each text, in the order of the gold file."""

    predicted: tuple[Mapping[str, int], ...]
    gold: tuple[Mapping[str, int], ...]
    rephrased: tuple[str, ...]
    """Ids of texts whose facts differ in the two files in more than case and spacing."""
    repeated: tuple[str, ...]
    """Ids of texts in which several facts are aligned to one predicate."""


def read_plan_lines(file: Path, alignments: bool = False) -> list[PlanLine]:
    """All lines of a file.

    Args:
        alignments: whether each line must have as many facts as groups; a predicate may then be in several groups.

    Raises:
        CorpusError: the file cannot be read, or a line is invalid; names the line and the id.
    """
    lines = [_plan_line(file, number, data, alignments) for number, data in json_objects(file)]
    if not lines:
        raise CorpusError(f"{file} contains no line")
    return lines


def _plan_line(file: Path, number: int, data: Mapping[str, Any], alignments: bool) -> PlanLine:
    place = f"{file}, line {number}"
    identifier = data.get("id")
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or not str(identifier).strip():
        raise CorpusError(f"{place}: needs an 'id', a string or an integer")
    identifier = str(identifier).strip()
    place += f", id {identifier!r}"
    reference = data.get("reference")
    if reference is not None and (isinstance(reference, bool) or not isinstance(reference, int)):
        raise CorpusError(f"{place}: 'reference' must be an integer, the number of the reference text")
    texts, named = _facts(place, data.get("facts"))
    try:
        groups = _groups(place, data, named, alignments)
    except PlanError as error:
        raise CorpusError(f"{place}: {error}") from error
    if alignments and not texts:
        raise CorpusError(f"{place}: needs 'facts', the segments of the text, one per group")
    if alignments and len(texts) != len(groups):
        counts = f"{len(groups)} groups but {len(texts)} facts"
        raise CorpusError(f"{place}: {counts}; write one group per fact, [] for a fact without triples")
    predicates = data.get("predicates", [])
    if not _strings(predicates):
        raise CorpusError(f"{place}: 'predicates' must be a list of strings, the record's predicates")
    names = frozenset(name for group in groups for name in group) | frozenset(predicates)
    return PlanLine(file, number, identifier, reference, groups, texts, names)


def _strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _facts(place: str, facts: object) -> tuple[tuple[str, ...], tuple[State, ...] | None]:
    """The texts of the facts, and their predicates if the facts are objects."""
    if facts is None:
        return (), None
    if _strings(facts):
        return tuple(facts), None  # type: ignore[arg-type]
    if isinstance(facts, list) and all(isinstance(fact, Mapping) for fact in facts):
        named = [fact.get("predicates") for fact in facts]
        texts = [fact.get("text") for fact in facts]
        if all(map(_strings, named)) and _strings(texts):
            return tuple(texts), tuple(map(tuple, named))
    raise CorpusError(f"{place}: 'facts' must be a list of strings, or of objects with 'text' and 'predicates'")


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
        raise PlanError(
            "the plan is empty; write for example [eatType] [near customerRating], or [] for a fact without triples"
        )
    return groups


def read_plans(gold: Path, plans: Path) -> PlansToScore:
    """A system's plans, one per id, with the gold plans of the same ids.

    Raises:
        CorpusError: a file cannot be read; ids are missing, unknown or (in `plans`) duplicated; a plan has a predicate
            that the gold plans of its id do not have. Names file, line and id.
    """
    references: dict[str, list[PlanLine]] = {}
    for line in read_plan_lines(gold):
        references.setdefault(line.id, []).append(line)
    predicates = {
        name: tuple(sorted(frozenset().union(*(x.predicates for x in lines)))) for name, lines in references.items()
    }
    for name, lines in references.items():
        if not predicates[name]:
            lines[0].fail("no gold line of this id has a predicate")
    plan_of: dict[str, PlanLine] = {}
    for line in read_plan_lines(plans):
        if line.id not in references:
            line.fail(f"{gold} has no such id")
        if line.id in plan_of:
            line.fail(f"line {plan_of[line.id].line} has the same id")
        _check_predicates(line, predicates[line.id])
        plan_of[line.id] = line
    _check_complete(plans, [lines[0] for name, lines in references.items() if name not in plan_of], "plan")
    return PlansToScore(
        ids=tuple(references),
        plans=tuple(plan_of[name].plan for name in references),
        references=tuple(tuple(line.plan for line in lines) for lines in references.values()),
        predicates=tuple(predicates.values()),
    )


def read_alignments(gold: Path, predicted: Path) -> AlignmentsToScore:
    """Predicted alignments with the gold alignments of the same texts.

    Raises:
        CorpusError: a file cannot be read; texts are missing, unknown or duplicated; the number of facts of a text
            differs from gold; a line has a predicate that the gold alignments of its id do not have. Names file, line
            and id.
    """
    expected: dict[tuple[str, int | None], list[PlanLine]] = {}
    for line in read_plan_lines(gold, alignments=True):
        lines = expected.setdefault((line.id, line.reference), [])
        if twin := next((candidate for candidate in lines if _said(candidate) == _said(line)), None):
            line.fail(f"line {twin.line} has the same id and the same text")
        lines.append(line)
    predicates: dict[str, set[str]] = {}
    for (name, _), lines in expected.items():
        predicates.setdefault(name, set()).update(*(line.predicates for line in lines))
    predicted_of: dict[int, PlanLine] = {}  # by the gold line's number
    rephrased: list[str] = []
    for line in read_plan_lines(predicted, alignments=True):
        gold_line = _gold_of(line, expected.get((line.id, line.reference), []), gold)
        if gold_line.line in predicted_of:
            line.fail(f"line {predicted_of[gold_line.line].line} aligns the same text")
        if len(line.facts) != len(gold_line.facts):
            line.fail(
                f"the text has {len(line.facts)} facts here but {len(gold_line.facts)} in {gold}, line {gold_line.line}"
            )
        _check_predicates(line, sorted(predicates[line.id]))
        if any(_folded(a) != _folded(b) for a, b in zip(line.facts, gold_line.facts, strict=True)):
            rephrased.append(line.id)
        predicted_of[gold_line.line] = line
    texts = [line for lines in expected.values() for line in lines]
    _check_complete(predicted, [line for line in texts if line.line not in predicted_of], "alignment")
    aligned = [predicted_of[line.line] for line in texts]
    return AlignmentsToScore(
        predicted=tuple(positions(line.groups) for line in aligned),
        gold=tuple(positions(line.groups) for line in texts),
        rephrased=tuple(rephrased),
        repeated=tuple(line.id for line in aligned if sum(map(len, line.groups)) > len(positions(line.groups))),
    )


def _gold_of(line: PlanLine, candidates: Sequence[PlanLine], gold: Path) -> PlanLine:
    """The gold line of a text; texts with the same id are distinguished by their words."""
    if not candidates:
        line.fail(f"{gold} has no such " + ("id" if line.reference is None else "id and reference"))
    if len(candidates) == 1:
        return candidates[0]
    for candidate in candidates:
        if _said(candidate) == _said(line):
            return candidate
    line.fail(f"{gold} has {len(candidates)} texts of this id, and the facts match none of them")


def _said(line: PlanLine) -> str:
    return _folded("".join(line.facts))


def _folded(text: str) -> str:
    """The text without case and spacing, which vary with the tokenisation."""
    return "".join(text.split()).casefold()


def _check_predicates(line: PlanLine, known: Sequence[str]) -> None:
    if unknown := sorted(line.predicates - set(known)):
        line.fail(f"the gold lines of this id have no predicate {unknown[0]!r}; they have {', '.join(known)}")


def _check_complete(file: Path, missing: Sequence[PlanLine], kind: str) -> None:
    if missing:
        others = f", nor for {len(missing) - 1} other lines" if len(missing) > 1 else ""
        raise CorpusError(f"{file} has no {kind} for {missing[0].place}{others}")
