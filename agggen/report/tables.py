"""Breakdowns of the scores by number of triples, category, predicate and group size."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from agggen.evaluation.segments import SegmentStatistics
from agggen.records import Plan
from agggen.report.content import Cell, Chart, Row, Table

MAX_CHARTED = 20  # maximum number of predicates in the chart, those with the most errors; the table has all predicates

_WHOLE_VALUES = "values said whole (strict), %"

Statistics = Mapping[str, SegmentStatistics]  # statistics of protocol `plain` by metric, over the texts of all rows


def by_triples(rows: Sequence[Row], statistics: Statistics) -> tuple[Table, Chart]:
    """Scores by the number of triples of a record."""
    caption = "By the number of triples of a record"
    table = _by_part(rows, statistics, lambda row: len(row.record.triples), "triples", caption)
    parts = table.as_dicts()
    chart = Chart(
        "Scores by the number of triples of a record, in percent",
        [f"triples: {part['triples']}, records: {part['records']}" for part in parts],
        {name: [part[name] for part in parts] for name in ("BLEU", "chrF", _WHOLE_VALUES) if name in table.columns},
    )
    return table, chart


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
    scores[_WHOLE_VALUES] = 100 * (1 - sum(len(row.check.missing) for row in rows) / triples)
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


def group_sizes(plans: Iterable[Plan], references: Iterable[int], source: str) -> tuple[Table, Chart] | None:
    """The group sizes of plans and, determined as `source` notes, of references; None without plans."""
    plan_sizes = Counter(len(group) for plan in plans for group in plan.states)
    counts = {"plans": plan_sizes, "references": Counter(references)}
    if not counts["plans"]:
        return None
    note = source if counts["references"] else "The references have no plans to compare with."
    counts = {name: count for name, count in counts.items() if count}
    sizes = sorted(set().union(*counts.values()))
    shares = {name: [100 * count[size] / count.total() for size in sizes] for name, count in counts.items()}
    rows: list[dict[str, Cell]] = []
    for index, size in enumerate(sizes):
        row: dict[str, Cell] = {"triples in a group": size}
        for name, count in counts.items():
            row |= {f"groups of {name}": count[size], f"{name}, %": shares[name][index]}
        rows.append(row)
    chart = Chart("Sizes of the groups of plans, in percent of groups", [f"triples: {size}" for size in sizes], shares)
    return Table("Number of triples per group", rows, note), chart


def by_predicate(rows: Sequence[Row]) -> tuple[Table, Chart]:
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
    error_counts = slot_counts or {"said in part": not_whole["part"], "missing": not_whole["missing"]}
    predicates = set(triples).union(*slot_counts.values())
    by_errors = sorted(predicates, key=lambda name: (-sum(count[name] for count in error_counts.values()), name))
    incomplete = not_whole["part"] + not_whole["missing"]
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
    charted = [name for name in by_errors if any(count[name] for count in error_counts.values())][:MAX_CHARTED]
    truncation_note = f" The table has all predicates, the chart {MAX_CHARTED}." if len(charted) == MAX_CHARTED else ""
    chart = Chart(
        "Slot errors by predicate" if has_slots else "Values that are not said whole (strict), by predicate",
        charted,
        {kind: [float(count[name]) for name in charted] for kind, count in error_counts.items()},
        f"By descending number.{truncation_note}",
    )
    note = "Strict: all words of a value, in order and adjacent. Lenient: at least 60 % of its words, anywhere."
    note += " Missed, wrong, added: slot errors." if has_slots else ""
    return Table("By predicate", table_rows, note), chart
