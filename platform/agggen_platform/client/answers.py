"""What the endpoint answers, as plain dictionaries. Its OpenAPI document is made of the same types.

An answer to a record has ``status`` "ok" or "error"; asking for it narrows the type:

    for answer in client.generate(records):
        if answer["status"] == "ok":
            print(answer["id"], answer["texts"][0]["text"])
        else:
            print(answer["id"], answer["error"]["detail"])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

RecordLike = Mapping[str, Any]
"""``{"id": "1", "triples": [["Aromi", "food", "English"]]}``; with ``plan`` where one is to be followed, and ``text``
(and ``facts``) where one is to be aligned. `Record.as_dict()` makes one."""


class ProblemDict(TypedDict):
    """Why there is no answer: problem+json (RFC 9457).

    `type` is urn:agggen:problem:CODE. `retryable`: the same request may succeed later. `record`, `index` (from 0) and
    `field` (triples.2.object) say where it went wrong. `errors` has one for each record, where all failed.
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
    """A piece text[start:end] and the predicates that the plan put there.

    `missing`: predicates whose values the piece does not say whole. `fallback`: true for a wording of the training
    texts or a plain clause, not the model's words.
    """

    start: int
    end: int
    text: str
    predicates: list[str]
    missing: NotRequired[list[str]]
    fallback: NotRequired[bool]


class TextDict(TypedDict):
    """A text and the plan it follows; log-probabilities are natural.

    `plan_log_probability` is over the plans of the settings, null where it is not known; `plan_search` is how the plan
    was found (exact, beam, given, ...). `fulfilled`: each fact says the values of its triples whole, and the strict
    check finds no fault; `faults` are what it finds. `unknown_predicates`: training never saw them; sentences of
    their own say them. `copied`: the spans of words copied from the record because the vocabulary lacks them.
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
    """A plan and its probability among the plans of the settings, null where it is not known."""

    plan: str
    log_probability: float | None
    probability: float | None
    search: str  # how it was found: exact, beam, two-stage, sample, ...


class AlignedFactDict(TypedDict):
    """A piece of a text, the predicates it most likely says, their triples, and the posterior of that group."""

    text: str
    predicates: list[str]
    triples: list[list[str]]
    posterior: float


class ValueDict(TypedDict):
    """How a text says the object of a triple, and its first mention text[start:end], in Unicode code points.

    `how`: `literal`, `rule` (a spelling derived by rule), `lexicon` or `phrase` (a wording of the training texts) say
    it whole; `part`: only words of it occur; `missing`: none.
    """

    predicate: str
    triple: list[str]
    how: Literal["literal", "rule", "lexicon", "phrase", "part", "missing"]
    start: NotRequired[int]
    end: NotRequired[int]


class VerdictDict(TypedDict):
    """The critic's verdict on a triple, and the probability that the text says it whole and right.

    `words`: how the check by words finds its value; see `ValueDict`.
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
    """The record has no answer, and why."""

    index: int
    id: str
    status: Literal["error"]
    error: ProblemDict


class _Answer(TypedDict):
    index: int
    id: str
    status: Literal["ok"]
    model: str  # fingerprint of the bundle that gave it


class TextsAnswer(_Answer):
    """The texts of a record, best first."""

    texts: list[TextDict]


class PlansAnswer(_Answer):
    """The plans of a record, most likely first."""

    plans: list[PlanDict]


class AlignedAnswer(_Answer):
    """The facts of a text, in its order; the log-likelihood is log p(text | record), over all plans."""

    facts: list[AlignedFactDict]
    log_likelihood: float


class CheckedAnswer(_Answer):
    """What the strict check finds in a text; `faults` has a sentence for each fault, and is empty without one.

    Where the endpoint has a critic, the same as in ``agggen check --json``: `scores`, `risk` (1: certainly at fault),
    `triples` with a verdict each, and `invented_spans`, the pieces text[start:end] that no triple supports.

    `unnamed`: subjects that are never named whole. `invented`: numbers, names and value words that no triple has.
    `repeated`: words that occur twice in a row. `swapped`: pairs of predicates whose values are in each other's place.
    `misplaced`: triples whose values are only in wordings of other predicates.
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


class TextsResponse(TypedDict):
    """An answer for each record, in the order of the request."""

    answers: list[TextsAnswer | ErrorAnswer]


class PlansResponse(TypedDict):
    """An answer for each record, in the order of the request."""

    answers: list[PlansAnswer | ErrorAnswer]


class AlignedResponse(TypedDict):
    """An answer for each record, in the order of the request."""

    answers: list[AlignedAnswer | ErrorAnswer]


class CheckedResponse(TypedDict):
    """An answer for each record, in the order of the request."""

    answers: list[CheckedAnswer | ErrorAnswer]


class ExampleDict(TypedDict):
    """A record and its reference texts."""

    id: str
    triples: list[list[str]]
    texts: list[str]


class ExamplesDict(TypedDict):
    """Records of the corpus of the served bundle; none, and empty names, if it is not where the endpoint runs."""

    corpus: str
    split: str
    records: list[ExampleDict]


class ComparedDict(TypedDict):
    """A second model, which answers requests whose ``X-Model`` is its fingerprint."""

    address: str
    fingerprint: str


class ModelDict(TypedDict):
    """What is served, its settings, and what a request may ask for. `facts`: what cut the training texts.

    `records_at_once`: records that a client should keep in flight to use the generators that run now and to have more
    of them started; the number grows with them.
    """

    fingerprint: str
    address: str
    facts: str
    largest_group: int
    predicates: int
    predicate_names: list[str]  # that training saw
    metrics: dict[str, float | None]
    model: dict[str, Any]
    inference: dict[str, Any]
    limits: dict[str, float]
    records_at_once: int
    compared: ComparedDict | None
