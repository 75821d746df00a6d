"""The endpoint's responses as plain dictionaries; its OpenAPI document is generated from these types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # before Python 3.12, pydantic refuses `typing.TypedDict`

RecordLike = Mapping[str, Any]
"""``{"id": "1", "triples": [["Aromi", "food", "English"]]}``, as `Record.as_dict()` returns; optionally with a ``plan``
to follow, or with a ``text`` (and its ``facts``) to align or check."""


class ProblemDict(TypedDict):
    """Why a request or a record failed: problem+json (RFC 9457).

    `type`: urn:agggen:problem:CODE. `retryable`: the same request may succeed later. `record` (id), `index` (from 0)
    and `field` (such as triples.2.object) locate the problem. `errors`: a problem per record, if all records failed.
    """

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
    """A span text[start:end] and the predicates that the plan assigns to it.

    `missing`: predicates whose values the span does not state in full. `fallback`: true if the span is a wording from
    the training texts or a plain clause, and not the model's output.
    """

    start: int
    end: int
    text: str
    predicates: list[str]
    missing: NotRequired[list[str]]
    fallback: NotRequired[bool]


class TextDict(TypedDict):
    """A text and the plan it follows; log-probabilities are natural.

    `plan_log_probability`: normalized over all plans that the settings allow; null if unknown. `plan_search`: how the
    plan was found (exact, beam, given, ...). `fulfilled`: each fact states the values of its triples in full, and the
    strict check finds no fault; `faults` lists the faults. `unknown_predicates` are not in the training data; each is
    stated in a separate sentence. `copied`: spans [start, end] of out-of-vocabulary words copied from the record.
    """

    text: str
    plan: str
    plan_log_probability: float | None
    plan_search: str
    text_log_probability: float
    score: float
    fulfilled: bool
    faults: NotRequired[list[str]]
    unknown_predicates: NotRequired[list[str]]
    copied: NotRequired[list[list[int]]]
    facts: list[FactDict]


class PlanDict(TypedDict):
    """A plan and its probability, normalized over all plans that the settings allow; null if unknown."""

    plan: str
    log_probability: float | None
    probability: float | None
    search: str  # how the plan was found: exact, beam, two-stage, sample, ...


class AlignedFactDict(TypedDict):
    """A fact (segment) of a text, the most probable set of predicates that it states, and that set's posterior."""

    text: str
    predicates: list[str]
    triples: list[list[str]]
    posterior: float


class ValueDict(TypedDict):
    """How a text states the object of a triple, and its first mention text[start:end], in Unicode code points.

    `how`: `literal`, `rule` (a spelling derived by rule), `lexicon` or `phrase` (a wording from the training texts) if
    it is stated in full; `part` if only some of its words occur; `missing` if none do.
    """

    predicate: str
    triple: list[str]
    how: Literal["literal", "rule", "lexicon", "phrase", "part", "missing"]
    start: NotRequired[int]
    end: NotRequired[int]


class VerdictDict(TypedDict):
    """The critic's verdict on a triple.

    `said`: the probability that the text states the triple fully and correctly. `words`: see `ValueDict.how`.
    """

    subject: str
    predicate: str
    object: str
    verdict: Literal["said", "part", "contradicted", "missing"]
    said: float
    words: Literal["literal", "rule", "lexicon", "phrase", "part", "missing"]


class ScoresDict(TypedDict):
    """Scores of a text, each in [0, 1]; 1 is best."""

    coverage: float
    correctness: float
    fluency: float


class ErrorAnswer(TypedDict):
    """The error of a record."""

    index: int
    id: str
    status: Literal["error"]
    error: ProblemDict


class _Answer(TypedDict):
    index: int
    id: str
    status: Literal["ok"]
    model: str  # fingerprint of the bundle


class TextsAnswer(_Answer):
    """The texts of a record, best first."""

    texts: list[TextDict]


class PlansAnswer(_Answer):
    """The plans of a record, most likely first."""

    plans: list[PlanDict]


class AlignedAnswer(_Answer):
    """The facts of a text, in order; `log_likelihood`: log p(text | record), marginalized over all plans."""

    facts: list[AlignedFactDict]
    log_likelihood: float


class CheckedAnswer(_Answer):
    """The result of the strict check of a text; `faults` describes each fault in a sentence.

    `unnamed`: subjects that no sentence names. `invented`: hallucinated numbers, names and value words, and words for a
    predicate that the record lacks. `repeated`: words repeated directly. `swapped`: pairs of predicates with exchanged
    values. `misplaced`: triples whose values occur only in contexts unlike the predicate's in the training texts.

    Only with a critic: `scores`, `risk` (in [0, 1]; 1: certainly faulty), a verdict for each of the `triples`, and
    `invented_spans` text[start:end] that no triple supports, as in ``agggen check --json``.
    """

    values: list[ValueDict]
    unnamed: list[str]
    invented: list[str]
    repeated: list[str]
    swapped: list[list[str]]
    misplaced: list[list[str]]
    faults: list[str]
    scores: NotRequired[ScoresDict]
    risk: NotRequired[float]
    triples: NotRequired[list[VerdictDict]]
    invented_spans: NotRequired[list[list[int]]]


# Responses: an answer for each record, in the order of the request.


class TextsResponse(TypedDict):
    answers: list[TextsAnswer | ErrorAnswer]


class PlansResponse(TypedDict):
    answers: list[PlansAnswer | ErrorAnswer]


class AlignedResponse(TypedDict):
    answers: list[AlignedAnswer | ErrorAnswer]


class CheckedResponse(TypedDict):
    answers: list[CheckedAnswer | ErrorAnswer]


class ExampleDict(TypedDict):
    """A record and its reference texts."""

    id: str
    triples: list[list[str]]
    texts: list[str]


class ExamplesDict(TypedDict):
    """Records of the served bundle's corpus; empty if the corpus is not on the endpoint's machine."""

    corpus: str
    split: str
    records: list[ExampleDict]


class ComparedDict(TypedDict):
    """A second served model; the request header ``X-Model: FINGERPRINT`` selects it."""

    address: str
    fingerprint: str


class ModelDict(TypedDict):
    """The served model, its settings, and the limits of requests. `facts`: the segmenter of the training texts.

    `records_at_once`: recommended number of records in flight, which keeps the running generators busy and makes the
    autoscaler start more; it grows with the number of generators.
    """

    fingerprint: str
    address: str
    facts: str
    largest_group: int
    predicates: int
    predicate_names: list[str]  # the predicates in the training data
    metrics: dict[str, float | None]
    model: dict[str, Any]
    inference: dict[str, Any]
    limits: dict[str, float]
    records_at_once: int
    compared: ComparedDict | None
