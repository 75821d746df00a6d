"""The sections of a report but for the text metrics: faithfulness, plans, adherence, alignment, diversity.

Each measure has its corpus value, from the module that defines it, and an interval over records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from agggen.evaluation import Score
from agggen.evaluation import plans as scores
from agggen.evaluation.adherence import text_adherence
from agggen.evaluation.alignments import Positions, alignment_scores
from agggen.evaluation.diversity import distinct_n, distinct_plans, self_bleu
from agggen.evaluation.report.content import Measure, Row, Section
from agggen.evaluation.segments import SegmentStatistics
from agggen.evaluation.significance import confidence_interval
from agggen.evaluation.systems import slot_statistics
from agggen.records import Plan, Record
from agggen.verification.e2e import slot_error_rate
from agggen.verification.lenient import coverage

if TYPE_CHECKING:
    from agggen.evaluation.held_out import HeldOut

Pairs = Sequence[tuple[float, float]]
"""Two numbers a record, the second 0 where the record does not count; the measure is the ratio of their sums."""


def _measure(name: str, score: Score, pairs: Pairs, seed: int) -> Measure:
    return Measure(name, score, _interval(np.array(pairs), lambda sums: sums[..., 0] / sums[..., 1], seed))


def _interval(rows: np.ndarray, formula: Callable[[np.ndarray], np.ndarray], seed: int) -> tuple[float, float] | None:
    """The 95 % bootstrap interval of `formula` of the sums of `rows`, (records, counts).

    None where fewer than two records count, or a sample leaves out all that do.
    """
    if np.count_nonzero(rows[:, -1]) < 2:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        found = confidence_interval(SegmentStatistics(rows, formula, "", None), seed=seed)
    return (found.low, found.high) if math.isfinite(found.low) and math.isfinite(found.high) else None


def faithfulness(rows: Sequence[Row], seed: int) -> Section:
    """Whether the texts say what the records say: by words, by the facts' own plans, by slots where there are any."""
    records = [row.record for row in rows]
    texts = [row.text for row in rows]
    said = [(100.0 * (len(row.record.triples) - len(row.unmentioned)), float(len(row.record.triples))) for row in rows]
    measures = [_measure("coverage", coverage(records, texts), said, seed)]
    planned = [row for row in rows if row.facts]
    if planned:
        kept = [(float(not any(fact.missing for fact in row.facts)), 1.0) for row in planned]
        share = sum(value for value, _ in kept) / len(kept)
        signature = f"share of texts in which every fact mentions all values of its group|texts:{len(kept)}"
        measures.append(_measure("fulfilled", Score(share, signature), kept, seed))
    if all(row.mistakes is not None for row in rows):
        for name, counted in slot_statistics(records, texts).items():
            measures.append(Measure(name, counted.corpus(), _interval(counted.rows, counted.formula, seed)))
        measures += _plain_slot_errors(rows, seed)
    note = (
        "Coverage and slot errors in percent, fulfilled as a share. Words and patterns decide; both err now and then."
    )
    return Section("faithfulness", "Do the texts say what the records say?", tuple(measures), note)


def _plain_slot_errors(rows: Sequence[Row], seed: int) -> Iterator[Measure]:
    """Slot errors as people read the texts; `ser.` above counts as the published numbers do."""
    kinds = {"add": ("added",), "miss": ("missed",), "wrong": ("wrong",), "ser": ("added", "missed", "wrong")}
    rates = slot_error_rate([row.record for row in rows], [row.text for row in rows], "plain")
    for part, kind in kinds.items():
        counts = [(100.0 * sum(m.kind in kind for m in row.mistakes or ()), float(row.slots)) for row in rows]
        yield _measure(f"ser_plain.{part}", rates[f"ser.{part}"], counts, seed)


def plans(
    key: str, title: str, found: Sequence[Plan], references: Sequence[Sequence[Plan]], seed: int, note: str = ""
) -> Section | None:
    """Plans beside the plans of references; None where there are none to compare with."""
    if not found:
        return None
    pairs = _plan_pairs(found, references)
    measures = [
        _measure(name, score, pairs[name], seed) if name in pairs else Measure(name, score)
        for name, score in scores.plan_scores(found, references).items()
    ]
    whole = "Shares, 0 to 1; tau -1 to 1; groups as a number. human_: the references among themselves."
    return Section(key, title, tuple(measures), f"{note} {whole}".strip())


def _plan_pairs(found: Sequence[Plan], references: Sequence[Sequence[Plan]]) -> dict[str, Pairs]:
    """Numerators and denominators of each record for the measures of `plan_scores` that are means."""
    both = list(zip(found, references, strict=True))
    nmi, ami, ari, kendall_tau = map(_remembered, (scores.nmi, scores.ami, scores.ari, scores.kendall_tau))

    def taus(plan: Plan, others: Sequence[Plan]) -> list[float]:
        values = [kendall_tau(plan, other) for other in others] if len(plan.states) > 1 else []
        return [value for value in values if not math.isnan(value)]

    def mean(measure: Callable[[Plan, Plan], float], pairs: Iterable[tuple[Plan, Plan]]) -> tuple[float, float]:
        values = [measure(*pair) for pair in pairs]
        return sum(values), float(len(values))

    def best(values: Sequence[Sequence[float]]) -> Pairs:
        return [(max(each), 1.0) if each else (0.0, 0.0) for each in values]

    def averaged(values: Sequence[Sequence[float]]) -> Pairs:
        return [(sum(each), float(len(each))) for each in values]

    def with_each(measure: Callable[[Plan, Plan], float]) -> Pairs:
        return [mean(measure, ((plan, other) for other in others)) for plan, others in both]

    ranked = [taus(plan, others) for plan, others in both]
    human = [list(combinations(others, 2)) for others in references]
    human_ranked = [
        [tau for pair in pairs if not math.isnan(tau := kendall_tau(*pair))] if len(plan.states) > 1 else []
        for plan, pairs in zip(found, human, strict=True)
    ]
    enough = min(max(map(len, references)), 3)
    human_best = [
        (max(nmi(*pair) for pair in pairs), 1.0) if pairs and len(others) >= enough else (0.0, 0.0)
        for pairs, others in zip(human, references, strict=True)
    ]
    shapes = [tuple(frozenset(state) for state in plan.states) for plan in found]
    others_shapes = [[tuple(frozenset(state) for state in other.states) for other in others] for others in references]
    return {
        "nmi_max": [(max(nmi(plan, other) for other in others), 1.0) for plan, others in both],
        "nmi_avg": with_each(nmi),
        "tau_max": best(ranked),
        "tau_avg": averaged(ranked),
        "ami": with_each(ami),
        "ari": with_each(ari),
        "groups": [(float(len(plan.states)), 1.0) for plan in found],
        "reference_groups": [(float(sum(len(o.states) for o in others)), float(len(others))) for others in references],
        "exact_match": [(float(shape in others), 1.0) for shape, others in zip(shapes, others_shapes, strict=True)],
        "exact_partition": [
            (float(set(shape) in [set(other) for other in others]), 1.0)
            for shape, others in zip(shapes, others_shapes, strict=True)
        ],
        "human_nmi_max": human_best,
        "human_nmi_avg": [mean(nmi, pairs) for pairs in human],
        "human_tau_max": best(human_ranked),
        "human_tau_avg": averaged(human_ranked),
        "human_ami": [mean(ami, pairs) for pairs in human],
        "human_ari": [mean(ari, pairs) for pairs in human],
    }


def _remembered(measure: Callable[[Plan, Plan], float]) -> Callable[[Plan, Plan], float]:
    """`measure` that is computed once for all pairs of plans of the same shape; none of ours looks at names."""
    known: dict[tuple[tuple[int, int], ...], float] = {}

    def of(plan: Plan, other: Plan) -> float:
        group = {name: number for number, state in enumerate(other.states) for name in state}
        shape = tuple(sorted((n, group[name]) for n, state in enumerate(plan.states) for name in state))
        if shape not in known:
            known[shape] = measure(plan, other)
        return known[shape]

    return of


def adherence(rows: Sequence[Row], seed: int) -> Section | None:
    """Whether the pieces of each text say what its plan puts there; None for texts without plans."""
    cut = [[piece for fact in row.facts if (piece := row.text[fact.start : fact.end]).strip()] for row in rows]
    planned = [(row.record, row.plan, pieces) for row, pieces in zip(rows, cut, strict=True) if row.plan and pieces]
    if not planned:
        return None
    records, follow, pieces_of = zip(*planned, strict=True)
    corpus = text_adherence(records, follow, pieces_of).scores()
    single = [(plan, text_adherence([record], [plan], [pieces])) for record, plan, pieces in planned]
    spread: dict[str, list[tuple[float, float]]] = {name: [] for name in corpus}
    for plan, one in single:
        crossing = sum(len(first) * len(second) for first, second in combinations(plan.states, 2))
        weights = {"said": len(plan.predicates), "group": len(plan.predicates), "order": crossing, "exact": 1}
        for name, weight in weights.items():
            spread[f"adherence_{name}"].append((getattr(one, name) * weight, float(weight)))
    measures = [_measure(name.removeprefix("adherence_"), score, spread[name], seed) for name, score in corpus.items()]
    note = (
        "Shares, 0 to 1. The texts' own facts are aligned by rules, which are right for 86 % of the triples against "
        "people: compare systems by it, do not read it as an absolute."
    )
    return Section("adherence", "Do the texts follow their plans?", tuple(measures), note)


def alignment(found: Mapping[str, tuple[Sequence[Positions], Sequence[Positions]]], seed: int) -> Section | None:
    """Alignments of the references against gold; None where there is no gold."""
    measures = []
    for who, (predicted, gold) in found.items():
        single = [
            alignment_scores([ours], [theirs])
            for ours, theirs in zip(predicted, gold, strict=True)
            if any(fact is not None for fact in theirs.values())
        ]
        parts = {
            "precision": [(100.0 * one.correct, float(one.aligned)) for one in single],
            "recall": [(100.0 * one.aligned, float(one.total)) for one in single],
            "accuracy": [(100.0 * one.correct, float(one.total)) for one in single],
        }
        counts = np.array([(one.correct, one.aligned, one.total) for one in single], dtype=float)
        for name, score in alignment_scores(predicted, gold).percentages().items():
            if name in parts:
                measures.append(_measure(f"{who}_{name}", score, parts[name], seed))
            else:
                measures.append(Measure(f"{who}_{name}", score, _interval(counts, _f1, seed)))
    if not measures:
        return None
    note = "Percent of the triples. The paper's recall: triples that were given any fact; accuracy: the right one."
    return Section("alignment", "Alignment of the references", tuple(measures), note)


def _f1(counts: np.ndarray) -> np.ndarray:
    """Of right, aligned and all triples, in percent."""
    correct, aligned, total = np.moveaxis(counts, -1, 0)
    precision, recall = correct / aligned, aligned / total
    return 200 * precision * recall / (precision + recall)


def diversity(texts: Sequence[str], n_best: Sequence[Sequence[tuple[str, Plan]]], seed: int) -> Section:
    """How different the texts are from each other and, of one record, the n best texts and their plans."""
    measures = [Measure(f"distinct_{n}", distinct_n(texts, n)) for n in (1, 2)]
    if any(len(found) > 1 for found in n_best):
        offered = [[text for text, _ in found] for found in n_best]
        own = [
            (self_bleu([found]).value * len(found), float(len(found))) if len(found) > 1 else (0.0, 0.0)
            for found in offered
        ]
        measures.append(_measure("self_bleu", self_bleu(offered), own, seed))
        plans_of = [[plan for _, plan in found] for found in n_best]
        counts = [(distinct_plans([found]).value, 1.0) for found in plans_of]
        measures.append(_measure("distinct_plans", distinct_plans(plans_of), counts, seed))
    note = "Distinct-n as a share of n-grams (no interval: it falls with the amount of text). Self-BLEU in percent."
    return Section("diversity", "How different are the texts?", tuple(measures), note)


def with_plans(records: Sequence[Record]) -> list[tuple[int, list[Plan]]]:
    """The places of the records of two or more triples whose references have plans, and these plans."""
    found = [
        (place, [reference.plan for reference in record.references if reference.plan])
        for place, record in enumerate(records)
        if len(record.triples) > 1
    ]
    return [(place, plans) for place, plans in found if plans]


def of_model(
    written: HeldOut,
    rows: Sequence[Row],
    found: Mapping[str, tuple[Sequence[Positions], Sequence[Positions]]],
    ablation: str,
    seed: int,
) -> list[Section]:
    """The sections that are not about words: what `found` is, see `agggen.evaluation.held_out.alignments`."""
    compared = with_plans(written.records)
    references = [others for _, others in compared]
    most_likely = [written.planned[place] for place, _ in compared]
    chosen = [written.generations[place].plan for place, _ in compared]
    offered = [[(one.text, one.plan) for one in of_record] for of_record in written.n_best]
    sections = [
        faithfulness(rows, seed),
        plans(
            "text_plans", "Plans of the texts", chosen, references, seed, "The plan that each text was written from."
        ),
        None
        if ablation != "none"  # its plans are not the model's most likely ones
        else plans("plans", "Most likely plans", most_likely, references, seed, "Found before any text is written."),
        adherence(rows, seed),
        alignment(found, seed),
        diversity(written.texts, offered, seed),
    ]
    return [section for section in sections if section is not None]
