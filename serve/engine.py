"""The messages between ingress, planners and generators: each record gets its own result or `Failure`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agggen.generation.generator import InferenceConfig
from agggen.records import Plan, Record
from agggen.verification.results import TextCheck

T = TypeVar("T")


def bundle_config(config: InferenceConfig) -> InferenceConfig:
    return config


@dataclass(frozen=True, slots=True)
class Job:
    record: Record
    plan: Plan | None = None  # the user's plan, followed exactly; None: the planner searches plans
    complete: bool = False  # whether to add the predicates that `plan` omits
    n_best: int = 1
    alone: bool = False  # whether not to batch the jobs of this call with those of other calls
    settings: Callable[[InferenceConfig], InferenceConfig] = bundle_config  # maps the bundle's settings to the job's


@dataclass(frozen=True, slots=True)
class Text:
    """A text to align with its record. `facts` concatenate to the text; if None, it is segmented as in training."""

    record: Record
    text: str
    facts: tuple[str, ...] | None = None


CheckResult = tuple[TextCheck, dict[str, Any]]
"""The strict check of a text, and `CheckedText.as_dict` with the results of the critic; empty without a critic."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for which a record has no result."""

    code: str  # one of: record, plan, text (errors of the client); deadline, busy, lost, internal
    message: str
    field: str | None = None  # of the record


TIMEOUT = Failure("deadline", "the deadline passed before this record was processed")
INTERNAL = Failure("internal", "this record could not be processed; the server's log has the error")


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """The result for a record, and the bundle that produced it: during an update, two bundles are in use."""

    value: T
    model: str  # the bundle's fingerprint


@dataclass(frozen=True, slots=True)
class ReplicaAnswers(Generic[T]):
    answers: list[T | Failure]
    model: str  # the fingerprint of the replica's bundle
    verify_seconds: float = 0.0  # of the strict check; 0 without tracing

    def results(self) -> list[Result[T] | Failure]:
        return [answer if isinstance(answer, Failure) else Result(answer, self.model) for answer in self.answers]
