"""Evaluation of a model on held-out records: texts, plans and alignments.

Texts are scored against the references, the most likely plan of each record against the references' plans, and the
Viterbi alignments of the reference texts against gold alignments, next to those of the rule-based aligner. Plans and
alignments are only scored if the records have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from agggen.alignment import align
from agggen.errors import CorpusError
from agggen.evaluation import Score
from agggen.evaluation.alignments import Positions, alignment_scores, positions
from agggen.evaluation.plans import plan_scores, with_plans
from agggen.evaluation.text_metrics import corpus_bleu, corpus_chrf, corpus_ter
from agggen.evaluation.values import FULFILLED, read_values
from agggen.generation.generator import Generation, Generator, InferenceConfig
from agggen.records import Plan, Record, Reference
from agggen.verification.check import Checker

_BLOCK = 64  # records per call of the generator


@dataclass(frozen=True)
class HeldOut:
    """A model's output for the records that have references."""

    records: list[Record]
    n_best: list[list[Generation]]
    """The texts of each record, best first."""
    planned: list[Plan]
    """The most likely plan of each record, independent of the texts."""

    @property
    def generations(self) -> list[Generation]:
        """The best text of each record."""
        return [generations[0] for generations in self.n_best]

    @property
    def texts(self) -> list[str]:
        """The best text of each record, as strings."""
        return [generation.text for generation in self.generations]


def write(
    generator: Generator,
    records: Iterable[Record],
    config: InferenceConfig | None = None,
    n_best: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> HeldOut:
    """Generates plans and texts for the records that have references.

    Args:
        generator: the model.
        records: those without references are skipped.
        config: of the generation; by default the generator's.
        n_best: number of texts to keep per record.
        progress: called with the number of finished records.

    Raises:
        CorpusError: no record has a reference text.
        RecordError: a record has too many triples.
    """
    with_references = [record for record in records if record.references]
    if not with_references:
        raise CorpusError("no record has a reference text; evaluation needs at least one")
    result = HeldOut(with_references, [], [])
    remaining = iter(with_references)
    while block := list(islice(remaining, _BLOCK)):
        result.n_best.extend(generator.generate(block, n_best=n_best, config=config))
        result.planned.extend(plans[0].plan for plans in generator.planner.plan(block, 1, config))
        progress(len(result.n_best))
    return result


def evaluate(generator: Generator, held_out: HeldOut) -> dict[str, Score]:
    """Corpus scores of texts, plans and alignments by name; plans and alignments only if there are gold ones."""
    scores = text_scores(held_out.records, held_out.texts, generator.checker)
    fulfilled = sum(generation.fulfilled for generation in held_out.generations) / len(held_out.generations)
    scores["fulfilled"] = Score(fulfilled, FULFILLED)
    compared = with_plans(held_out.records)
    if compared:
        references = [reference_plans for _, reference_plans in compared]
        predicates = [held_out.records[index].predicates for index, _ in compared]
        plan_measures = plan_scores([held_out.planned[index] for index, _ in compared], references, predicates)
        scores |= {f"plan_{name}": score for name, score in plan_measures.items()}
    for aligner, pair in alignments(generator, held_out.records).items():
        for name, percent in alignment_scores(*pair).items():
            signature = percent.signature.replace("|percent|", "|share|")
            scores[f"{aligner}_{name}"] = Score(percent.value / 100, signature)
    return scores


def text_scores(records: Sequence[Record], texts: Sequence[str], checker: Checker | None = None) -> dict[str, Score]:
    """sacreBLEU's BLEU (lower-cased), chrF and TER, and the value measures of `agggen.evaluation.values`.

    Args:
        records: with references.
        texts: one per record.
        checker: the model's; by default one without a lexicon.
    """
    references = [[reference.text for reference in record.references] for record in records]
    return {
        "bleu": corpus_bleu(texts, references, lowercase=True),
        "chrf": corpus_chrf(texts, references),
        "ter": corpus_ter(texts, references, lowercase=True),
        **{name: statistics.corpus() for name, statistics in read_values(records, texts, checker).statistics.items()},
    }


def alignments(
    generator: Generator, records: Sequence[Record]
) -> dict[str, tuple[Sequence[Positions], Sequence[Positions]]]:
    """Predicted and gold alignments of the annotated reference texts, for ``viterbi`` and ``rule_based``."""
    texts = [(record, reference) for record in records for reference in record.references if _has_gold(reference)]
    if not texts:
        return {}
    facts = [[fact.text for fact in reference.facts or ()] for _, reference in texts]
    gold = [positions(fact.predicates or () for fact in reference.facts or ()) for _, reference in texts]
    viterbi = [positions(plan.states) for plan in generator.align([record for record, _ in texts], facts)]
    rules = [
        dict(zip(record.predicates, align(record, text_facts).fact_of, strict=True))
        for (record, _), text_facts in zip(texts, facts, strict=True)
    ]
    return {"viterbi": (viterbi, gold), "rule_based": (rules, gold)}


def _has_gold(reference: Reference) -> bool:
    return bool(reference.facts) and all(fact.predicates is not None for fact in reference.facts or ())
