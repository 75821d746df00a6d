"""A model on held-out records: what it writes, plans and aligns, each number with its signature.

Texts are scored against the references; each record's most likely plan, found before any text is written, against the
references' plans where they have one; alignments of the reference texts against gold where their facts name their
predicates. The rule-based aligner stands beside the model's.
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

_BLOCK = 64  # records that are written about together


@dataclass(frozen=True)
class HeldOut:
    """What a model did with the records that have references."""

    records: list[Record]
    n_best: list[list[Generation]]
    """The texts of each record, best first."""
    planned: list[Plan]
    """The most likely plan of each record, found before any text was written."""

    @property
    def generations(self) -> list[Generation]:
        """The best text of each record."""
        return [found[0] for found in self.n_best]

    @property
    def texts(self) -> list[str]:
        """The best text of each record, without more."""
        return [generation.text for generation in self.generations]


def write(
    generator: Generator,
    records: Iterable[Record],
    config: InferenceConfig | None = None,
    n_best: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> HeldOut:
    """Plans and writes about each record that has a reference.

    Args:
        n_best: texts to keep of each record.
        progress: told how many records are done.

    Raises:
        CorpusError: no record has a reference text.
        RecordError: a record has too many triples.
    """
    chosen = [record for record in records if record.references]
    if not chosen:
        raise CorpusError("there are no reference texts to evaluate against")
    written = HeldOut(chosen, [], [])
    rest = iter(chosen)
    while block := list(islice(rest, _BLOCK)):
        written.n_best.extend(generator.generate(block, n_best=n_best, config=config))
        written.planned.extend(found[0].plan for found in generator.planner.plan(block, 1, config))
        progress(len(written.n_best))
    return written


def evaluate(generator: Generator, written: HeldOut) -> dict[str, Score]:
    """The scores in short: texts, plans, alignments."""
    scores = text_scores(written.records, written.texts, generator.checker)
    fulfilled = sum(generation.fulfilled for generation in written.generations) / len(written.generations)
    scores["fulfilled"] = Score(fulfilled, FULFILLED)
    compared = with_plans(written.records)
    if compared:
        references = [others for _, others in compared]
        predicates = [written.records[place].predicates for place, _ in compared]
        found = plan_scores([written.planned[place] for place, _ in compared], references, predicates)
        scores |= {f"plan_{name}": score for name, score in found.items()}
    for who, found_by in alignments(generator, written.records).items():
        for name, percent in alignment_scores(*found_by).items():
            share = percent.signature.replace("|percent|", "|share|")
            scores[f"{who}_{name}"] = Score(percent.value / 100, share)
    return scores


def text_scores(records: Sequence[Record], texts: Sequence[str], checker: Checker | None = None) -> dict[str, Score]:
    """BLEU (lower-cased), chrF and TER of sacreBLEU, and what is said of the values (`agggen.evaluation.values`).

    Args:
        checker: of the model that wrote the texts; by default one without a lexicon.
    """
    references = [[reference.text for reference in record.references] for record in records]
    return {
        "bleu": corpus_bleu(texts, references, lowercase=True),
        "chrf": corpus_chrf(texts, references),
        "ter": corpus_ter(texts, references, lowercase=True),
        **{name: found.corpus() for name, found in read_values(records, texts, checker).statistics.items()},
    }


def alignments(
    generator: Generator, records: Sequence[Record]
) -> dict[str, tuple[Sequence[Positions], Sequence[Positions]]]:
    """Viterbi and rule-based alignments of the reference texts whose facts name their predicates, each beside gold."""
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
    return {"viterbi": (viterbi, gold), "rule_based": (rules, gold)}


def _has_gold(reference: Reference) -> bool:
    return bool(reference.facts) and all(fact.predicates is not None for fact in reference.facts or ())
