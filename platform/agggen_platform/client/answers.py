"""What the endpoint takes and answers, as plain dictionaries: its OpenAPI document (`/openapi.json`) in types.

An answer to a record has ``status`` "ok" or "error"; asking for it narrows the type:

    for answer in client.generate(records):
        if answer["status"] == "ok":
            print(answer["id"], answer["texts"][0]["text"])
        else:
            print(answer["id"], answer["error"]["detail"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

RecordLike = Mapping[str, Any]
"""``{"id": "1", "triples": [["Aromi", "food", "English"]]}``; with ``plan`` where one is to be followed, and ``text``
(and ``facts``) where one is to be aligned. `Record.as_dict()` makes one."""


class RealiseOptions(TypedDict, total=False):
    """How texts are written; what is left out is as the model's own settings say."""

    n_best: int
    beam: int
    complete: bool  # let the model add the predicates that a plan omits
    # retry: a text that misses a value is searched for once more. refuse: a record of which no text mentions all values
    # is an error.
    verify: Literal["flag", "retry", "refuse"]


class GenerateOptions(RealiseOptions, total=False):
    """How plans are searched and texts are written."""

    level: int  # the largest number of triples in a fact; 1: no aggregation
    plans: int  # that are written out for each record
    planner: Literal["exact", "two-stage"]
    ablation: Literal["none", "random-order", "no-aggregation", "plain"]
    seed: int  # of random-order


class PlanOptions(TypedDict, total=False):
    """How plans are searched."""

    k: int  # plans for each record, best first
    level: int


class ProblemDict(TypedDict):
    """Why there is no answer (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    retryable: bool
    record: NotRequired[str]
    index: NotRequired[int]
    field: NotRequired[str]
    request_id: NotRequired[str]
    errors: NotRequired[list[ProblemDict]]


class FactDict(TypedDict):
    """A piece ``text[start:end]`` and the predicates that the plan put there."""

    start: int
    end: int
    text: str
    predicates: list[str]
    missing: NotRequired[list[str]]  # predicates whose values the piece does not mention


class TextDict(TypedDict):
    """A text and the plan it follows; log-probabilities are natural."""

    text: str
    plan: str
    plan_log_probability: float | None
    text_log_probability: float
    score: float
    fulfilled: bool
    facts: list[FactDict]


class PlanDict(TypedDict):
    """A plan and its probability among all plans of the record at this level."""

    plan: str
    log_probability: float | None
    probability: float | None


class AlignedFactDict(TypedDict):
    """A piece of a text, the predicates it most likely says, their triples, and the posterior of that group."""

    text: str
    predicates: list[str]
    triples: list[list[str]]
    posterior: float


class ErrorAnswer(TypedDict):
    """The record has no answer, and why."""

    index: int
    id: str
    status: Literal["error"]
    error: ProblemDict


class TextsAnswer(TypedDict):
    """The texts of a record, best first."""

    index: int
    id: str
    status: Literal["ok"]
    model: str  # fingerprint of the bundle that gave it
    texts: list[TextDict]


class PlansAnswer(TypedDict):
    """The plans of a record, most likely first."""

    index: int
    id: str
    status: Literal["ok"]
    model: str  # fingerprint of the bundle that gave it
    plans: list[PlanDict]


class AlignedAnswer(TypedDict):
    """The facts of a text, in its order."""

    index: int
    id: str
    status: Literal["ok"]
    model: str  # fingerprint of the bundle that gave it
    facts: list[AlignedFactDict]
    log_likelihood: float


class ModelDict(TypedDict):
    """What is served, its settings, and what a request may ask for."""

    fingerprint: str
    address: str
    facts: str
    largest_group: int
    predicates: int
    metrics: dict[str, float | None]
    model: dict[str, Any]
    inference: dict[str, Any]
    limits: dict[str, float]


Records = Sequence[RecordLike]
