"""The sections of a report: text metrics, faithfulness, plans, alignment, diversity.

Scores have bootstrap intervals over records. If a metric cannot be computed on this machine (METEOR without Java), the
report states the reason, but a metric that was requested by name raises an error.
"""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agggen.errors import AggGenError, ConfigError
from agggen.evaluation.held_out import ModelOutput
from agggen.evaluation.java import package_version
from agggen.evaluation.plans import (
    Positions,
    Predicates,
    alignment_statistics,
    distinct_plans,
    indexed_reference_plans,
    plan_statistics,
)
from agggen.evaluation.protocols import PROTOCOLS, measure, requested_metrics
from agggen.evaluation.segments import SegmentStatistics, confidence_interval, quotient_statistics
from agggen.evaluation.systems import slot_statistics
from agggen.evaluation.text_metrics import distinct_n, self_bleu
from agggen.evaluation.values import FULFILLED_SIGNATURE, VALUE_METRICS
from agggen.records import Plan, Record
from agggen.report.content import Measure, Row, Section

PLAIN = "plain"
_JAVA_METRICS = frozenset({"meteor", "rouge_l", "cider"})
_TITLES = {
    "plain": "Texts against references: sacreBLEU",
    "e2e": "Texts against references: the E2E challenge's scorer",
    "webnlg-2017": "Texts against references: the scorers of the WebNLG challenge and the AggGen paper",
}

Alignments = Mapping[str, tuple[Sequence[Positions], Sequence[Positions]]]  # by aligner: predicted and gold


def to_measures(statistics: Mapping[str, SegmentStatistics], seed: int, prefix: str = "") -> list[Measure]:
    """The corpus score of each metric with its interval; `prefix` is prepended to the names."""
    return [
        Measure(f"{prefix}{name}", statistic.corpus(), interval(statistic, seed))
        for name, statistic in statistics.items()
    ]


def interval(statistics: SegmentStatistics, seed: int) -> tuple[float, float] | None:
    """The 95 % bootstrap interval over records; None if fewer than two contribute, or samples have undefined scores."""
    if statistics.rows.any(axis=1).sum() < 2:
        return None
    estimate = confidence_interval(statistics, seed=seed)
    return (estimate.low, estimate.high) if math.isfinite(estimate.low) and math.isfinite(estimate.high) else None


@dataclass(frozen=True)
class TextMetrics:
    """The text metrics to compute."""

    protocol: str = PLAIN
    metrics: tuple[str, ...] | None = None  # of the protocol; None for all that can be computed on this machine

    def __post_init__(self) -> None:
        """Raises AggGenError if protocol or metric is unknown, or a requested metric needs a missing Java runtime."""
        requested_metrics(self.protocol, self.metrics)
        for name in _JAVA_METRICS.intersection(self.metrics or ()):
            package_version()
            if shutil.which("java") is None:
                raise ConfigError(f"{name} needs a Java runtime, and no `java` is on the PATH")


def protocol_of(corpus: str) -> str:
    """The protocol of a corpus's published scores; ``plain`` if there are none."""
    return "webnlg-2017" if corpus.startswith("webnlg") else "e2e" if corpus.startswith("e2e") else PLAIN


@dataclass(frozen=True)
class TextScores:
    """The scores of texts against references."""

    sections: list[Section]
    plain: Mapping[str, SegmentStatistics]  # the metrics of protocol `plain`, for breakdowns
    segment_scores: dict[str, Sequence[float]]  # by ``protocol/metric``: the score of each text


def text_scores(
    text_metrics: TextMetrics, records: Sequence[Record], texts: Sequence[str], seed: int = 0
) -> TextScores:
    """Scores the text of each record by the chosen protocol and by protocol `plain`."""
    references = [[reference.text for reference in record.references] for record in records]
    plain_statistics = measure(PLAIN, texts, references)
    reasons: dict[str, str] = {}
    if text_metrics.protocol == PLAIN:
        by_protocol = {PLAIN: {name: plain_statistics[name] for name in text_metrics.metrics or PROTOCOLS[PLAIN]}}
    else:
        protocol_statistics, reasons = _statistics_and_reasons(text_metrics, texts, references)
        by_protocol = {text_metrics.protocol: protocol_statistics, PLAIN: plain_statistics}
    scores = TextScores([], plain_statistics, {})
    for protocol, metrics in by_protocol.items():
        measures = {measured.name: measured for measured in to_measures(metrics, seed)}
        if protocol == text_metrics.protocol:
            measures |= {name: Measure(name, None, None, reason) for name, reason in reasons.items()}
        ordered = [measures[name] for name in PROTOCOLS[protocol] if name in measures]
        note = "In percent." if protocol != "e2e" else "In percent; NIST and CIDEr as the tools print them."
        note += " TER: lower is better." if "ter" in PROTOCOLS[protocol] else ""
        scores.sections.append(Section(protocol, _TITLES[protocol], ordered, note))
        for name, statistic in metrics.items():
            if statistic.segment_scores is not None:
                scores.segment_scores[f"{protocol}/{name}"] = statistic.segment_scores.tolist()
    return scores


def _statistics_and_reasons(
    text_metrics: TextMetrics, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[dict[str, SegmentStatistics], dict[str, str]]:
    """(statistics by metric, reasons by metric that cannot be computed); raises for requested metrics."""
    try:
        return measure(text_metrics.protocol, texts, references, text_metrics.metrics), {}
    except AggGenError:
        if text_metrics.metrics is not None:
            raise
    statistics: dict[str, SegmentStatistics] = {}
    reasons = {}
    for name in PROTOCOLS[text_metrics.protocol]:
        try:
            statistics |= measure(text_metrics.protocol, texts, references, [name])
        except AggGenError as error:
            reasons[name] = str(error)
    return statistics, reasons


def model_sections(
    output: ModelOutput,
    rows: Sequence[Row],
    alignments: Alignments,
    values: Mapping[str, SegmentStatistics],
    ablation: str,
    seed: int,
) -> list[Section]:
    """The sections on values, plans, alignments and diversity; with an ablation, without the most likely plans."""
    with_reference_plans = indexed_reference_plans(output.records)
    references = [plans for _, plans in with_reference_plans]
    predicates = [output.records[index].predicates for index, _ in with_reference_plans]
    text_plans = [output.generations[index].plan for index, _ in with_reference_plans]
    most_likely = [output.most_likely_plans[index] for index, _ in with_reference_plans] if ablation == "none" else []
    n_best = [[(generation.text, generation.plan) for generation in result] for result in output.n_best]
    sections = [
        faithfulness(rows, values, seed),
        plans("text_plans", "Plans of the texts", text_plans, references, seed, predicates),
        plans("plans", "Most likely plans, independent of the texts", most_likely, references, seed, predicates),
        alignment(alignments, seed),
        diversity(output.texts, n_best, seed),
    ]
    return [section for section in sections if section is not None]


def faithfulness(rows: Sequence[Row], values: Mapping[str, SegmentStatistics], seed: int) -> Section:
    """Faithfulness of the texts to the records: values, and slot errors if the corpus has slots."""
    statistics = dict(values)
    rows_with_facts = [row for row in rows if row.facts]
    if rows_with_facts:
        counts = [(not row.check.faults and not any(fact.missing for fact in row.facts), 1) for row in rows_with_facts]
        statistics["fulfilled"] = quotient_statistics(counts, f"{FULFILLED_SIGNATURE}|texts:{len(counts)}")
    if all(row.slot_errors is not None for row in rows):
        records, texts = [row.record for row in rows], [row.text for row in rows]
        statistics |= slot_statistics(records, texts)
        plain = slot_statistics(records, texts, "plain")
        statistics |= {f"ser_plain.{name.removeprefix('ser.')}": statistic for name, statistic in plain.items()}
    meanings = "".join(f"{name}: {meaning}. " for name, meaning in VALUE_METRICS.items())
    note = (
        f'{meanings}fulfilled: a fraction (strict). Slot errors, in percent: "ser." with the published patterns, '
        '"ser_plain." with the plain patterns. All checks use words and patterns and are sometimes wrong.'
    )
    return Section("faithfulness", "Faithfulness of the texts to the records", to_measures(statistics, seed), note)


def plans(
    key: str,
    title: str,
    predicted: Sequence[Plan],
    references: Sequence[Sequence[Plan]],
    seed: int,
    predicates: Predicates | None = None,
) -> Section | None:
    """Agreement of `predicted` with the plans of the references; None if `predicted` is empty."""
    if not predicted:
        return None
    note = 'From 0 to 1; tau from -1 to 1; groups: a number. "human_": the references are compared with each other.'
    return Section(key, title, to_measures(plan_statistics(predicted, references, predicates), seed), note)


def alignment(alignments: Alignments, seed: int) -> Section | None:
    """Agreement of predicted with gold alignments of the references; None without gold alignments."""
    measures: list[Measure] = []
    for aligner, (predicted, gold) in alignments.items():
        measures += to_measures(alignment_statistics(predicted, gold), seed, f"{aligner}_")
    note = "In percent of triples. The paper's recall: aligned, right or wrong; accuracy: aligned to the right fact."
    return Section("alignment", "Alignment of the references", measures, note) if measures else None


def diversity(texts: Sequence[str], n_best: Sequence[Sequence[tuple[str, Plan]]], seed: int) -> Section:
    """Diversity of all texts, and of the n-best texts and plans of a record."""
    measures = [Measure(f"distinct_{n}", distinct_n(texts, n)) for n in (1, 2)]
    if any(len(generations) > 1 for generations in n_best):
        statistics = {
            "self_bleu": self_bleu([[text for text, _ in generations] for generations in n_best]),
            "distinct_plans": distinct_plans([[plan for _, plan in generations] for generations in n_best]),
        }
        measures += to_measures(statistics, seed)
    note = "Distinct-n: a fraction (no interval, since it depends on the amount of text). Self-BLEU: in percent."
    return Section("diversity", "Diversity of the texts", measures, note)
