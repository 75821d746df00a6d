"""The parts of a report: a row per record, comparison with published systems, breakdowns."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from agggen.alignment import align
from agggen.evaluation.published import Board, PublishedSystem
from agggen.evaluation.segments import SegmentStatistics
from agggen.evaluation.values import CheckedValues
from agggen.facts import FactSegmenter
from agggen.generation.results import WrittenFact
from agggen.records import Plan, Record
from agggen.report.content import OUR_NAME, Cell, Row, Section, Table
from agggen.verification.e2e import slot_errors, slot_of

Statistics = Mapping[str, SegmentStatistics]  # statistics of protocol `plain` by metric, over the texts of all rows


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


def breakdowns(
    rows: Sequence[Row], statistics: Statistics, references: tuple[Iterable[int], str]
) -> dict[str, Table | None]:
    """The scores by triples, category, predicate and group size; `references`: the result of `reference_groups`."""
    caption = "By the number of triples of a record"
    return {
        "by_triples": _by_part(rows, statistics, lambda row: len(row.record.triples), "triples", caption),
        "by_category": by_category(rows, statistics),
        "groups": group_sizes([row.plan for row in rows if row.plan is not None], *references),
        "by_predicate": by_predicate(rows),
    }


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


def by_category(rows: Sequence[Row], statistics: Statistics) -> Table | None:
    """Scores by the category (domain) of a record; None without categories."""
    if all(row.record.category is None for row in rows):
        return None
    return _by_part(rows, statistics, lambda row: row.record.category or "(none)", "category", "By category")


def _by_part(
    rows: Sequence[Row], statistics: Statistics, key: Callable[[Row], int | str], name: str, caption: str
) -> Table:
    parts: dict[int | str, list[int]] = {}
    for index, row in enumerate(rows):
        parts.setdefault(key(row), []).append(index)
    ordered = sorted(parts, key=lambda part: (isinstance(part, str), part))
    table_rows = [{name: part, **_scores(rows, parts[part], statistics)} for part in ordered]
    note = "BLEU and chrF: sacreBLEU's corpus scores of each part. Lenient: at least 60 % of the words of a value."
    return Table(caption, table_rows, note)


def _scores(all_rows: Sequence[Row], indices: Sequence[int], statistics: Statistics) -> dict[str, Cell]:
    rows = [all_rows[index] for index in indices]
    scores: dict[str, Cell] = {"records": len(rows)}
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF")):
        if metric in statistics:
            scores[name] = statistics[metric].corpus(indices).value
    triples = sum(len(row.record.triples) for row in rows)
    scores["values said whole (strict), %"] = 100 * (1 - sum(len(row.check.missing) for row in rows) / triples)
    scores["values mentioned (lenient), %"] = 100 * (1 - sum(len(row.unmentioned) for row in rows) / triples)
    scores["texts without faults (strict), %"] = 100 * sum(not row.check.faults for row in rows) / len(rows)
    scores["invented values per 100 texts (strict)"] = 100 * sum(len(row.check.invented) for row in rows) / len(rows)
    slot_errors = [row.slot_errors for row in rows if row.slot_errors is not None]
    if slot_errors:
        total_errors = sum(len(errors.all) for errors in slot_errors)
        scores["slot errors, % of slots"] = 100 * total_errors / sum(errors.slots for errors in slot_errors)
    plans = [row.plan for row in rows if row.plan is not None]
    if plans:
        scores["groups a plan"] = sum(len(plan.states) for plan in plans) / len(plans)
    return scores


def group_sizes(plans: Iterable[Plan], references: Iterable[int], source: str) -> Table | None:
    """The group sizes of plans and, determined as `source` notes, of references; None without plans."""
    plan_sizes = Counter(len(group) for plan in plans for group in plan.states)
    if not plan_sizes:
        return None
    counts = {"plans": plan_sizes, "references": Counter(references)}
    note = source if counts["references"] else "The references have no plans to compare with."
    rows: list[dict[str, Cell]] = []
    for size in sorted(set().union(*counts.values())):
        row: dict[str, Cell] = {"triples in a group": size}
        for name, count in counts.items():
            if count:
                row |= {f"groups of {name}": count[size], f"{name}, %": 100 * count[size] / count.total()}
        rows.append(row)
    return Table("Number of triples per group", rows, note)


def by_predicate(rows: Sequence[Row]) -> Table:
    """Numbers of values that are not whole (strict) or not mentioned (lenient), and of slot errors, by predicate."""
    has_slots = any(row.slot_errors is not None for row in rows)
    triples: Counter[str] = Counter()
    unmentioned: Counter[str] = Counter()
    not_whole: dict[str, Counter[str]] = {"part": Counter(), "missing": Counter()}
    slot_error_kinds = ("missed", "wrong", "added") if has_slots else ()
    slot_counts: dict[str, Counter[str]] = {kind: Counter() for kind in slot_error_kinds}
    for row in rows:
        triple_of = dict(zip(row.record.predicates, row.record.triples, strict=True))
        triples.update(triple.predicate for triple in row.record.triples)
        unmentioned.update(triple_of[name].predicate for name in row.unmentioned)
        for value in row.check.values:
            if not value.whole:
                not_whole[value.kind][value.triple.predicate] += 1
        for kind, error in row.labelled_errors:
            slot_counts[kind][error.slot] += 1
    incomplete = not_whole["part"] + not_whole["missing"]
    errors = sum(slot_counts.values(), Counter[str]()) if has_slots else incomplete
    by_errors = sorted({*triples, *errors}, key=lambda name: (-errors[name], name))
    table_rows: list[dict[str, Cell]] = [
        {
            "predicate": name,
            "triples": triples[name],
            "not said whole (strict)": incomplete[name],
            "not said whole (strict), %": 100 * incomplete[name] / triples[name] if triples[name] else None,
            "said in part": not_whole["part"][name],
            "not mentioned (lenient)": unmentioned[name],
            **{kind: count[name] for kind, count in slot_counts.items()},
        }
        for name in by_errors
    ]
    note = "Strict: all words of a value, in order and adjacent. Lenient: at least 60 % of its words, anywhere."
    note += " Missed, wrong, added: slot errors." if has_slots else ""
    return Table("By predicate", table_rows, note)
