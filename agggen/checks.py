"""Checks texts of any system against records, by rules (`agggen.verification.check`) and with a learned critic."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from agggen.datasets import load_records
from agggen.display import PrettyPrinted, Results, html_of_spans
from agggen.records import Record, Triple
from agggen.verification.check import Checker
from agggen.verification.critic.critic import Critic, Judgement, load_critic
from agggen.verification.critic.tokens import text_words
from agggen.verification.lenient import find_mentions
from agggen.verification.results import TextCheck

shipped_critic = cache(load_critic)  # the critic that agggen ships, loaded at the first call
RISK_THRESHOLD = 0.14
"""Texts of higher risk should be reviewed. Of 712 texts with human ratings, 60 % have at most this risk, and only 3.5 %
of those are rated incorrect."""


@dataclass(frozen=True)
class CheckedText(PrettyPrinted):
    """The result of `check` for a text; see "Checking any text" in ``agggen/README.md``."""

    record: Record
    text: str
    result: TextCheck  # the result of the rule-based check, which is strict about values but does not check relations
    judgement: Judgement  # the learned critic's verdict on each triple, and its scores of the text

    @property
    def said(self) -> tuple[Triple, ...]:
        """The triples whose values the text expresses completely, according to the rule-based check."""
        return tuple(value.triple for value in self.result.values if value.whole)

    @property
    def missing(self) -> tuple[Triple, ...]:
        """The triples whose values the text does not express completely, according to the rule-based check."""
        return self.result.missing

    @property
    def invented(self) -> tuple[str, ...]:
        """Hallucinated numbers, names and value words, which are in no triple of the record."""
        return self.result.invented

    @property
    def faults(self) -> tuple[str, ...]:
        """Every fault that the rule-based check finds."""
        return self.result.faults

    @cached_property
    def shares(self) -> tuple[float, float]:
        """Fractions of values that are mentioned (by the lenient or strict check) and of subjects that are named."""
        values = zip(find_mentions(self.record, self.text).checks, self.result.values, strict=True)
        n_unmentioned = sum(not (lenient.mentioned or strict.whole) for lenient, strict in values)
        n_subjects = len({triple.subject for triple in self.record.triples})
        return 1 - n_unmentioned / len(self.result.values), 1 - len(self.result.unnamed) / n_subjects

    @property
    def scores(self) -> dict[str, float]:
        """``coverage``, ``correctness`` and ``fluency``, each in [0, 1].

        Coverage and correctness are weighted means of the critic's score (weight 1), the fraction of mentioned values
        (1) and the fraction of named subjects (1/2). Fluency is correctness times the fraction of distinct bigrams.
        """
        mentioned, named = self.shares
        mention_score = mentioned + named / 2
        correctness = (self.judgement.correctness + mention_score) / 2.5
        bigrams = list(pairwise(text_words(self.text)[0]))
        return {
            "coverage": (self.judgement.coverage + mention_score) / 2.5,
            "correctness": correctness,
            "fluency": correctness * len(set(bigrams)) / max(1, len(bigrams)),
        }

    @property
    def risk(self) -> float:
        """The risk that the text is incorrect, in [0, 1]; texts of the highest risk should be reviewed first."""
        return 1 - min(self.scores["coverage"], self.scores["correctness"])

    @property
    def doubts(self) -> list[str]:
        """The critic's verdicts other than ``said``, each with its triple."""
        return [f"{judged.verdict}: {judged.triple}" for judged in self.judgement.verdicts if judged.verdict != "said"]

    def as_dict(self) -> dict[str, Any]:
        verdicts = [
            asdict(judged.triple) | {"verdict": judged.verdict, "said": round(judged.said, 4), "words": value.kind}
            for judged, value in zip(self.judgement.verdicts, self.result.values, strict=True)
        ]
        return {
            "id": self.record.id,
            "text": self.text,
            "values": dict(zip(self.record.predicates, (value.kind for value in self.result.values), strict=True)),
            "scores": {name: round(score, 4) for name, score in self.scores.items()},
            "risk": round(self.risk, 4),
            "triples": verdicts,
            "invented": [list(span) for span in self.judgement.invented],
            "faults": list(self.faults),
        }

    def __str__(self) -> str:
        verdicts = zip(self.judgement.verdicts, self.result.values, strict=True)
        lines = [f"  {judged.verdict:<12} {value}" for judged, value in verdicts]
        return "\n".join([self.text, *lines, self._summary])

    def _repr_html_(self) -> str:
        spans = [(f"[{value.triple.predicate}]", value.span) for value in self.result.values if value.span]
        remarks = [str(value) for value in self.result.values if not value.whole]
        return html_of_spans(self.text, spans, [*remarks, *self.doubts, self._summary])

    @property
    def _summary(self) -> str:
        scores = ", ".join(f"{name} {score:.2f}" for name, score in self.scores.items())
        return f"check: {'; '.join(self.faults) or 'every value complete, no fault found'}\nscores: {scores}"


def check_all(
    records: Sequence[Record], texts: Sequence[str], checker: Checker | None = None, critic: Critic | None = None
) -> list[CheckedText]:
    """Checks each text against its record, by default without a lexicon and with the shipped critic.

    Raises AggGenError if the numbers of records and texts differ, or are zero.
    """
    checker, critic = checker or Checker(), critic or shipped_critic()
    judgements = critic.judge(records, texts)
    return [
        CheckedText(record, text, checker.check(record, text), judgement)
        for record, text, judgement in zip(records, texts, judgements, strict=True)
    ]


def check(records: Any, text: Any, *, critic: Critic | None = None, checker: Checker | None = None) -> Any:
    """Checks a text, or a list with one per record, of any system; returns a `CheckedText`, or `Results` of several.

    `records` is a record, or any source of `load_records`; for `critic` and `checker` see `check_all`.
    """
    all_records = [records] if isinstance(records, Record) else load_records(records)
    texts = [text] if isinstance(text, str) else list(text)
    results = Results(check_all(all_records, texts, checker, critic))
    return results[0] if isinstance(text, str) else results
