"""From what was written and scored to a whole report: rows, comparison, breakdowns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agggen.alignment import align
from agggen.evaluation.published import Board, Published
from agggen.evaluation.report.breakdowns import by_category, by_predicate, by_triples, group_sizes
from agggen.evaluation.report.content import OURS, Cell, Mistake, Report, Row, Section, Span, Table
from agggen.evaluation.segments import SegmentStatistics
from agggen.facts import FactSegmenter
from agggen.records import Plan, Record
from agggen.verification.e2e import slot_errors, slot_of
from agggen.verification.lenient import verify


def rows_of(
    records: Sequence[Record],
    texts: Sequence[str],
    plans: Sequence[Plan | None] | None = None,
    facts: Sequence[Sequence[Span]] | None = None,
    scores: Mapping[str, Sequence[float]] | None = None,
) -> list[Row]:
    """One row a record, with what its text gets wrong.

    Slot errors are looked for where every predicate of every record is a slot of E2E, as people read ("plain").

    Args:
        plans: of each text, where they are known; `facts` likewise.
        scores: of each text, by metric.
    """
    slots = all(slot_of(triple.predicate) for record in records for triple in record.triples)
    rows = []
    for place, (record, text) in enumerate(zip(records, texts, strict=True)):
        checks = zip(record.predicates, verify(record, text).checks, strict=True)
        missing = {name: check.why for name, check in checks if not check.mentioned}
        mistakes, checked = _mistakes(record, text) if slots else (None, 0)
        rows.append(
            Row(
                record,
                text,
                plans[place] if plans is not None else None,
                facts[place] if facts is not None else (),
                {name: values[place] for name, values in (scores or {}).items()},
                missing,
                mistakes,
                checked,
            )
        )
    return rows


def _mistakes(record: Record, text: str) -> tuple[tuple[Mistake, ...], int]:
    found = slot_errors(record, text, "plain")
    kinds = (("added", found.added), ("missed", found.missed), ("wrong", found.wrong))
    mistakes = [Mistake(kind, error.slot, error.value, str(error)) for kind, errors in kinds for error in errors]
    return tuple(mistakes), found.slots


def build(
    title: str,
    identity: Mapping[str, str | int],
    run: Mapping[str, Cell],
    rows: Sequence[Row],
    sections: Sequence[Section],
    statistics: Mapping[str, SegmentStatistics] | None = None,
    references: tuple[Iterable[int], str] = ((), ""),
    published: tuple[Table | None, str] = (None, ""),
    partial: str = "",
    seed: int = 0,
) -> Report:
    """Puts a report together and takes the scores apart by triples, category, predicate and size of groups.

    Args:
        statistics: what plain sacreBLEU counted in each row's text.
        references: the sizes of the groups of the references' plans, and where they come from.
        published: the table beside published systems, and how it was made or why there is none.
    """
    triples, triples_chart = by_triples(rows, statistics or {})
    predicates, predicates_chart = by_predicate(rows)
    charts = [("by_triples", triples_chart), ("by_predicate", predicates_chart)]
    groups = group_sizes([row.plan for row in rows if row.plan is not None], *references)
    if groups is not None:
        charts.append(("groups", groups[1]))
    return Report(
        title=title,
        identity=identity,
        run=run,
        sections=sections,
        rows=rows,
        published=published[0],
        published_note=published[1],
        by_triples=triples,
        by_category=by_category(rows, statistics or {}),
        groups=groups[0] if groups else None,
        by_predicate=predicates,
        charts=charts,
        partial=partial,
        seed=seed,
    )


def reference_groups(records: Sequence[Record], segmenter: FactSegmenter) -> tuple[list[int], str]:
    """How many triples share a fact in the references: by their plans or, without any, by rules; and which of these."""
    planned = [reference.plan for record in records for reference in record.references if reference.plan]
    if planned:
        return [len(state) for plan in planned for state in plan.states], "The references' groups are their own plans'."
    sizes: list[int] = []
    for record in records:
        for facts in segmenter.segment([reference.text for reference in record.references]):
            found = align(record, facts, complete=False).fact_of
            sizes += Counter(fact for fact in found if fact is not None).values()
    how = f"facts cut by {segmenter.name!r}, triples aligned to them by rules; triples that no fact says are left out"
    return sizes, f"The references have no plans of their own: {how}."


def beside_published(board: Board, sections: Sequence[Section]) -> tuple[Table, str]:
    """Our scores among the published ones, by falling BLEU, and how both were computed."""
    measures = {
        measure.name: measure
        for section in sections
        if section.key in (board.protocol, "faithfulness")
        for measure in section.measures
    }
    names = list(dict.fromkeys(name for system in board.systems for name in system.scores))
    ours = {name: measures[name].score for name in names if name in measures}
    rows: list[tuple[Cell, ...]] = [
        (system.system, *(system.scores.get(name) for name in names), source_of(system)) for system in board.systems
    ]
    rows.append(
        (OURS, *(None if (score := ours.get(name)) is None else score.value for name in names), "computed here")
    )
    rows.sort(key=lambda row: -(row[1] if isinstance(row[1], float) else -1.0))
    title = f"{board.corpus} {board.split}, all {board.inputs:,} records, trained on {board.trained_on}"
    how = "; ".join(f"{name} {score.signature}" for name, score in ours.items() if score is not None)
    note = f"Published: {board.how}. Ours: protocol {board.protocol} on raw texts ({how})."
    if board.unusable:
        note += f" Ours leaves out {board.unusable} of the inputs, which have no name and so no subject."
    return Table(title, ("system", *names, "source"), tuple(rows)), note


def source_of(system: Published) -> str:
    """Where a published system's scores stand, and of how many runs they are means."""
    return system.source if system.runs == 1 else f"{system.source}; mean of {system.runs}"
