"""A model on held-out records: texts, plans and alignments, each number with its signature.

Texts are scored against the references; each record's most likely plan, found before any text is written, against the
references' plans where they have one; alignments of the reference texts against gold where their facts name their
predicates. The rule-based aligner stands beside the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agggen.alignment import align
from agggen.errors import CorpusError
from agggen.evaluation import Score
from agggen.evaluation.alignments import AlignmentScores, alignment_scores, positions
from agggen.evaluation.coverage import coverage
from agggen.evaluation.plans import agreement, reference_agreement
from agggen.evaluation.text_metrics import corpus_bleu, corpus_chrf, corpus_ter, webnlg_bleu
from agggen.generation.generator import Generation, Generator, InferenceConfig
from agggen.records import Plan, Record, Reference


@dataclass(frozen=True)
class HeldOut:
    """What `evaluate` found; the names of the scores are the keys."""

    generations: list[Generation]
    scores: dict[str, Score]


def evaluate(generator: Generator, records: Sequence[Record], config: InferenceConfig | None = None) -> HeldOut:
    """Writes a text for each record and scores all that the references allow.

    Raises:
        CorpusError: no record has a reference text.
    """
    records = [record for record in records if record.references]
    if not records:
        raise CorpusError("there are no reference texts to evaluate against")
    generations = [found[0] for found in generator.generate(records, config=config)]
    scores = text_scores(records, [generation.text for generation in generations])
    fulfilled = sum(generation.fulfilled for generation in generations) / len(generations)
    scores["fulfilled"] = Score(fulfilled, "share of texts in which every fact mentions all values of its group")
    scores |= plan_scores(records, [found[0].plan for found in generator.plan(records, 1)])
    scores |= aligner_scores(generator, records)
    return HeldOut(generations, scores)


def text_scores(records: Sequence[Record], texts: Sequence[str]) -> dict[str, Score]:
    """BLEU (sacreBLEU, lower-cased), the AggGen paper's WebNLG BLEU, chrF, TER, and the coverage of the triples."""
    references = [[reference.text for reference in record.references] for record in records]
    return {
        "bleu": corpus_bleu(texts, references, lowercase=True),
        "webnlg_bleu": webnlg_bleu(texts, references),
        "chrf": corpus_chrf(texts, references),
        "ter": corpus_ter(texts, references, lowercase=True),
        "coverage": coverage(records, texts),
    }


def plan_scores(records: Sequence[Record], plans: Sequence[Plan]) -> dict[str, Score]:
    """Agreement of the plans with the references' plans, and of these with each other; records of 2 or more triples."""
    compared = [
        (plan, [reference.plan for reference in record.references if reference.plan])
        for record, plan in zip(records, plans, strict=True)
        if len(record.triples) > 1
    ]
    compared = [(plan, others) for plan, others in compared if others]
    if not compared:
        return {}
    ours = agreement([plan for plan, _ in compared], [others for _, others in compared])
    found = {"plan": ours}
    if any(len(others) > 1 for _, others in compared):
        found["plan_human"] = reference_agreement([others for _, others in compared])
    measures = ("nmi_avg", "nmi_max", "tau_avg", "tau_max", "ami", "ari", "groups")
    return {
        f"{who}_{measure}": Score(getattr(result, measure), result.signature)
        for who, result in found.items()
        for measure in measures
    }


def aligner_scores(generator: Generator, records: Sequence[Record]) -> dict[str, Score]:
    """Viterbi and rule-based alignment of the reference texts whose facts name their predicates."""
    texts = [(record, reference) for record in records for reference in record.references if _has_gold(reference)]
    if not texts:
        return {}
    facts = [[fact.text for fact in reference.facts or ()] for _, reference in texts]
    gold = [positions(fact.predicates or () for fact in reference.facts or ()) for _, reference in texts]
    viterbi = [positions(found.states) for found in generator.align([record for record, _ in texts], facts)]
    rules = [
        dict(zip(record.predicates, align(record, pieces).fact_of, strict=True))
        for (record, _), pieces in zip(texts, facts, strict=True)
    ]
    return _named("viterbi", alignment_scores(viterbi, gold)) | _named("rule_based", alignment_scores(rules, gold))


def _has_gold(reference: Reference) -> bool:
    return bool(reference.facts) and all(fact.predicates is not None for fact in reference.facts or ())


def _named(who: str, scores: AlignmentScores) -> dict[str, Score]:
    measures = ("precision", "recall", "f1", "accuracy")
    return {f"{who}_{measure}": Score(getattr(scores, measure), scores.signature) for measure in measures}
