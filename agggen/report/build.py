"""Builds a report from texts and scores: rows, comparison with published systems, breakdowns."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agggen.alignment import align
from agggen.evaluation.published import Board, PublishedSystem
from agggen.evaluation.segments import SegmentStatistics
from agggen.evaluation.values import CheckedValues
from agggen.facts import FactSegmenter
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.report.content import OUR_NAME, Cell, Report, Row, Section, Table
from agggen.report.tables import by_category, by_predicate, by_triples, group_sizes
from agggen.verification.e2e import slot_errors, slot_of


def rows_of(
    records: Sequence[Record],
    texts: Sequence[str],
    values: CheckedValues,
    plans: Sequence[Plan | None],
    facts: Sequence[Sequence[WrittenFact]],
    scores: Mapping[str, Sequence[float]],
) -> list[Row]:
    """A row per record, with slot errors (reading "plain") if all predicates are slots of E2E."""
    has_slots = all(slot_of(triple.predicate) for record in records for triple in record.triples)
    rows = []
    for index, (record, text) in enumerate(zip(records, texts, strict=True)):
        lenient = zip(record.predicates, values.mentions[index].checks, strict=True)
        rows.append(
            Row(
                record,
                text,
                values.checks[index],
                plans[index],
                facts[index],
                {name: metric_scores[index] for name, metric_scores in scores.items()},
                {name: check.reason for name, check in lenient if not check.mentioned},
                slot_errors(record, text, "plain") if has_slots else None,
            )
        )
    return rows


def build(
    title: str,
    identity: Mapping[str, str | int],
    run: Mapping[str, Cell],
    rows: Sequence[Row],
    sections: Sequence[Section],
    statistics: Mapping[str, SegmentStatistics],
    references: tuple[Iterable[int], str],
    published: tuple[Table | None, str],
    partial: str = "",
    seed: int = 0,
) -> Report:
    """Builds a report, with breakdowns of the scores by triples, category, predicate and group size.

    `statistics` are the metrics of protocol `plain`, `references` the result of `reference_groups`, and `published` the
    comparison with published systems or None, and the report's `published_note`.
    """
    triples, triples_chart = by_triples(rows, statistics)
    predicates, predicates_chart = by_predicate(rows)
    groups = group_sizes([row.plan for row in rows if row.plan is not None], *references)
    tables = {
        "published": published[0],
        "by_triples": triples,
        "by_category": by_category(rows, statistics),
        "groups": groups[0] if groups else None,
        "by_predicate": predicates,
    }
    charts = {"by_triples": triples_chart, "by_predicate": predicates_chart} | ({"groups": groups[1]} if groups else {})
    return Report(title, identity, run, sections, rows, tables, charts, published[1], partial, seed)


def reference_groups(records: Sequence[Record], segmenter: FactSegmenter) -> tuple[list[int], str]:
    """The group sizes of the references, from their plans or else by rule-based alignment, and a note on it."""
    plans = [reference.plan for record in records for reference in record.references if reference.plan]
    sizes = [len(group) for plan in plans for group in plan.states]
    if plans:
        return sizes, "The references' groups are those of their plans."
    for record in records:
        for facts in segmenter.segment([reference.text for reference in record.references]):
            fact_of = align(record, facts, complete=False).fact_of
            sizes += Counter(fact for fact in fact_of if fact is not None).values()
    method = f"facts are segmented by {segmenter.name!r}, triples aligned by rules, and unaligned triples ignored"
    return sizes, f"The references have no plans: {method}."


def compare_with_published(board: Board, sections: Sequence[Section]) -> tuple[Table, str]:
    """(table of this report's and the published scores by descending BLEU, note on their computation)."""
    scores = {
        measure.name: measure.score
        for section in sections
        if section.key in (board.protocol, "faithfulness")
        for measure in section.measures
        if measure.score is not None
    }
    names = list(dict.fromkeys(name for system in board.systems for name in system.scores))
    our_scores = {name: scores[name] for name in names if name in scores}
    our_values = {name: score.value for name, score in our_scores.items()}
    systems = [(system.name, system.scores, source_of(system)) for system in board.systems]
    rows: list[dict[str, Cell]] = [
        {"system": name, **{metric: system_scores.get(metric) for metric in names}, "source": source}
        for name, system_scores, source in (*systems, (OUR_NAME, our_values, "computed here"))
    ]
    rows.sort(key=lambda row: -(bleu if isinstance(bleu := row["bleu"], float) else -1.0))
    title = f"{board.corpus} {board.split}, all {board.inputs:,} records, trained on {board.trained_on}"
    signatures = "; ".join(f"{name} {score.signature}" for name, score in our_scores.items())
    note = f"Published: {board.method}. Ours: protocol {board.protocol} on raw texts ({signatures})."
    return Table(title, rows), note


def source_of(system: PublishedSystem) -> str:
    """The source of a published system's scores, with the number of runs if they are means."""
    return system.source if system.runs == 1 else f"{system.source}; mean of {system.runs}"
