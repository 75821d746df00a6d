"""The messages between ingress, planners and generators. Each record has its own answer: its result, or a `Failure`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agggen.generation.generator import InferenceConfig
from agggen.records import Plan, Record
from agggen.verification.results import TextCheck

T = TypeVar("T")


def bundle_settings(own: InferenceConfig) -> InferenceConfig:
    """A job's default settings: those of the bundle."""
    return own


@dataclass(frozen=True, slots=True)
class Job:
    """One record to plan or to write about."""

    record: Record
    plan: Plan | None = None  # the user's plan, followed exactly; None: plans are searched
    complete: bool = False  # whether to add the predicates that `plan` omits
    n_best: int = 1
    alone: bool = False  # whether the jobs of this call share no batch with other calls
    settings: Callable[[InferenceConfig], InferenceConfig] = bundle_settings  # from the bundle's settings to the job's


@dataclass(frozen=True, slots=True)
class Text:
    """A text to align with its record; `facts` concatenate to the text; None: the text is segmented as in training."""

    record: Record
    text: str
    facts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of the checks of a text."""

    words: TextCheck
    critic: dict[str, Any]  # scores, risk, triples and invented of `CheckedText.as_dict`; empty without a critic


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record has no answer."""

    code: str  # one of: record, plan, text (errors of the client); deadline, busy, lost, internal
    message: str
    field: str | None = None  # of the record


LATE = Failure("deadline", "the deadline passed before this record was done")
INTERNAL = Failure("internal", "this record could not be processed; the server's log says why")
"""After an unexpected error, which is logged."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """The answer to a record and the bundle that gave it; during an update, old and new bundle are both in use."""

    value: T
    model: str  # the bundle's fingerprint


@dataclass(frozen=True, slots=True)
class ByModel(Generic[T]):
    """The answers of a replica to several records, in their order."""

    answers: list[T | Failure]
    model: str  # the fingerprint of the replica's bundle
    verify_seconds: float = 0.0
    """Time of the strict check, each batch's time divided equally among its records; 0 without tracing."""

    def answered(self) -> list[Answered[T] | Failure]:
        """The answers, each with the fingerprint of the model; failures unchanged."""
        return [answer if isinstance(answer, Failure) else Answered(answer, self.model) for answer in self.answers]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Describes the served bundle."""

    fingerprint: str
    address: str  # with an alias resolved to the version
    facts: str  # the fact segmenter of the training texts
    largest_group: int  # the largest number of triples in a fact
    inference: InferenceConfig  # the bundle's own settings
    predicates: int  # the number of `predicate_names`
    predicate_names: tuple[str, ...]  # predicates seen in training
    metrics: dict[str, float]
    model: dict[str, Any]  # the model's configuration


@dataclass(frozen=True, slots=True)
class Examples:
    """Records of a corpus; none if the corpus is not in the catalogue or not on this machine."""

    corpus: str = ""
    split: str = ""
    records: tuple[Record, ...] = ()
