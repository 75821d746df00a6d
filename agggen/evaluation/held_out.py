"""Outputs of a model for an evaluation: texts, most likely plans, and alignments of references."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agggen.alignment import align
from agggen.errors import CorpusError
from agggen.evaluation.plans import Positions, positions
from agggen.generation.generator import Generation, Generator, InferenceConfig
from agggen.records import Plan, Record

_BATCH_SIZE = 64  # records


@dataclass(frozen=True)
class ModelOutput:
    """A model's texts and plans for records with references."""

    records: list[Record]
    n_best: list[list[Generation]]  # the texts of each record, best first
    most_likely_plans: list[Plan]  # the most likely plan of each record; its text may have another plan

    @property
    def generations(self) -> list[Generation]:
        """The best text of each record, with plan and facts."""
        return [generations[0] for generations in self.n_best]

    @property
    def texts(self) -> list[str]:
        return [generation.text for generation in self.generations]


def generate_outputs(
    generator: Generator,
    records: Iterable[Record],
    config: InferenceConfig | None = None,
    n_best: int = 1,
    progress: Callable[[int], None] = lambda n_finished: None,
) -> ModelOutput:
    """Generates plans and texts for the records with references; calls `progress` with the number of finished records.

    Raises CorpusError if no record has a reference text.
    """
    scored_records = [record for record in records if record.references]
    if not scored_records:
        raise CorpusError("no record has a reference text; evaluation needs at least one")
    result = ModelOutput(scored_records, [], [])
    for start in range(0, len(scored_records), _BATCH_SIZE):
        batch = scored_records[start : start + _BATCH_SIZE]
        result.n_best.extend(generator.generate(batch, n_best=n_best, config=config))
        result.most_likely_plans.extend(plans[0].plan for plans in generator.planner.plan(batch, 1, config))
        progress(len(result.n_best))
    return result


def alignments(
    generator: Generator, records: Sequence[Record]
) -> dict[str, tuple[Sequence[Positions], Sequence[Positions]]]:
    """By aligner (``viterbi``, ``rule_based``): (predicted, gold) alignments of each reference with gold facts.

    {} if no reference has gold facts.
    """
    annotated_references = [
        (record, reference.facts)
        for record in records
        for reference in record.references
        if reference.facts and all(fact.predicates is not None for fact in reference.facts)
    ]
    if not annotated_references:
        return {}
    annotated_records = [record for record, _ in annotated_references]
    texts = [[fact.text for fact in facts] for _, facts in annotated_references]
    gold = [positions(fact.predicates or () for fact in facts) for _, facts in annotated_references]
    viterbi = [positions(plan.states) for plan in generator.align(annotated_records, texts)]
    rule_based = [
        dict(zip(record.predicates, align(record, facts).fact_of, strict=True))
        for record, facts in zip(annotated_records, texts, strict=True)
    ]
    return {"viterbi": (viterbi, gold), "rule_based": (rule_based, gold)}
