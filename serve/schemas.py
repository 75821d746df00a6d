"""The bodies of requests and answers, as pydantic checks them and the OpenAPI document shows them.

A request is checked in two steps, so that one bad record does not take the others with it: `Envelope` is the request
without looking into its records; each record is then checked on its own. Bounds that the configuration sets
(`limits.*`) are not part of these models: `serve.options` and `serve.answering` know them.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

from serve.errors import Problem

LARGEST_SEED = 2**63 - 1
_PRINTED = "[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f]*"
_SAYABLE = f"^{_PRINTED}[^\\s\\u0000-\\u001f]{_PRINTED}$"  # not blank, no control characters
_PLAN: dict[str, Any] = {"pattern": r"^\s*\[[^\[\]]+\][\s\S]*$"}  # how it begins
_KINDS = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
_TAGS = ("as-list", "as-object", "str", "int")  # parts of pydantic's places that the body does not have

EXAMPLE_TRIPLES = [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]
EXAMPLE_RECORD: dict[str, Any] = {"id": "Si", "triples": EXAMPLE_TRIPLES}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# --- requests -------------------------------------------------------------------------------------------------------


Part = Annotated[str, Field(min_length=1, json_schema_extra={"pattern": _SAYABLE})]


class TripleObject(_Body):
    """One fact with named parts."""

    subject: Part
    predicate: Part
    object: Part


TripleList = Annotated[
    list[Part],
    Field(min_length=3, max_length=3, description="[subject, predicate, object]"),
]
TripleIn = Annotated[
    Annotated[TripleList, Tag("as-list")] | Annotated[TripleObject, Tag("as-object")],
    Discriminator(lambda value: "as-object" if isinstance(value, dict) else "as-list"),
]


class RecordIn(_Body):
    """What to write about. `references` and `category`, which corpora have, are taken and not looked at."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_RECORD]})

    id: str | int | None = Field(
        default=None, description="returned with the answer; once in a request; default: the index"
    )
    triples: list[TripleIn] = Field(min_length=1)
    references: list[Any] | None = Field(default=None, description="ignored")
    category: str | None = Field(default=None, description="ignored")


class GenerateRecord(RecordIn):
    """A record, and a human plan to follow exactly; without one the model plans."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_RECORD | {"plan": "[category symbol]"}]})

    plan: str | None = Field(
        default=None, min_length=1, json_schema_extra=_PLAN, description="like `[category symbol] [namedAfter]`"
    )


class RealiseRecord(RecordIn):
    """A record and the plan by which to say it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_RECORD | {"plan": "[category] [symbol]"}]})

    plan: str = Field(
        min_length=1,
        json_schema_extra=_PLAN,
        description="like `[category symbol] [namedAfter]`; names every predicate once",
    )


class AlignRecord(RecordIn):
    """A record and a text about it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_RECORD | {"text": "Silicon (Si) is a metalloid."}]}
    )

    text: str = Field(min_length=1)
    facts: list[str] | None = Field(
        default=None,
        min_length=1,
        description="pieces that concatenate to `text`; without them it is cut as in training",
    )


Verify = Literal["flag", "retry", "refuse"]


class RealiseOptions(_Body):
    """How texts for given plans are written. What is left out is as the model's own settings say (`GET /v1/model`)."""

    n_best: int = Field(default=1, ge=1, description="texts for each record, best first")
    beam: int | None = Field(default=None, ge=1, description="hypotheses of the beam search")
    complete: bool = Field(
        default=False, description="let the model add the predicates that a plan omits; else that is an error"
    )
    verify: Verify = Field(
        default="flag",
        description="`flag`: every text says whether its facts mention the values of all their triples (`fulfilled`, "
        "`missing`). `retry`: and for one that does not, another is searched for once, among four times as many plans "
        "and twice as many hypotheses. `refuse`: only texts that do are returned, the best `n_best` of all that the "
        "search wrote; a record without one is an error of the type `unfulfilled`",
    )


class GenerateOptions(RealiseOptions):
    """How plans are searched and texts written. What is left out is as the model's own settings say."""

    level: int | None = Field(
        default=None, ge=0, description="largest number of triples in a fact; 1: no aggregation; 0: the model's"
    )
    plans: int | None = Field(default=None, ge=1, description="plans that are written out for each record")
    planner: Literal["exact", "two-stage"] | None = None
    ablation: Literal["none", "random-order", "no-aggregation", "plain"] | None = None
    seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED, description="of the ablation random-order")


class PlanOptions(_Body):
    """How plans are searched."""

    k: int = Field(default=5, ge=1, description="plans for each record, best first")
    level: int | None = Field(
        default=None, ge=0, description="largest number of triples in a fact; 1: no aggregation; 0: the model's"
    )


class AlignOptions(_Body):
    """There are none."""


Options = GenerateOptions | RealiseOptions | PlanOptions | AlignOptions


class Envelope(_Body):
    """A request whose records and options have not been looked into."""

    records: list[Any] = Field(min_length=1)
    options: dict[str, Any] = Field(default_factory=dict)


class GenerateRequest(_Body):
    """Records to write about."""

    records: list[GenerateRecord] = Field(min_length=1)
    options: GenerateOptions = GenerateOptions()


class PlanRequest(_Body):
    """Records to plan."""

    records: list[RecordIn] = Field(min_length=1)
    options: PlanOptions = PlanOptions()


class RealiseRequest(_Body):
    """Records and the plans by which to say them."""

    records: list[RealiseRecord] = Field(min_length=1)
    options: RealiseOptions = RealiseOptions()


class AlignRequest(_Body):
    """Records and texts about them."""

    records: list[AlignRecord] = Field(min_length=1)
    options: AlignOptions = AlignOptions()


# --- answers --------------------------------------------------------------------------------------------------------


class ProblemBody(BaseModel):
    """problem+json (RFC 9457)."""

    type: str = Field(examples=["urn:agggen:problem:plan"])
    title: str
    status: int
    detail: str
    retryable: bool = Field(description="whether the same request may succeed later")
    record: str | None = Field(default=None, description="id of the record")
    index: int | None = Field(default=None, ge=0, description="place of the record in the request, from 0")
    field: str | None = Field(default=None, examples=["triples.2.object", "options.n_best"])
    request_id: str | None = None
    errors: list[ProblemBody] | None = Field(default=None, description="one for each record, where all failed")


class FactOut(BaseModel):
    """A piece of a text and the predicates that the plan put there."""

    start: int
    end: int
    text: str
    predicates: list[str]
    missing: list[str] | None = Field(default=None, description="predicates whose values the piece does not mention")


class TextOut(BaseModel):
    """A text with the plan it follows. Log-probabilities are natural."""

    text: str
    plan: str
    plan_log_probability: float | None = Field(
        description="over all plans of the record; null beyond the model's groups"
    )
    text_log_probability: float = Field(description="given the plan")
    score: float
    fulfilled: bool = Field(description="whether each fact mentions the values of all its triples")
    facts: list[FactOut]


class PlanOut(BaseModel):
    """A plan and its probability among all plans of the record at this level."""

    plan: str
    log_probability: float | None
    probability: float | None


class AlignedFactOut(BaseModel):
    """A piece of a text, the predicates it most likely says, their triples, and the posterior of that group."""

    text: str
    predicates: list[str]
    triples: list[list[str]]
    posterior: float = Field(ge=0)


class _Answer(BaseModel):
    index: int = Field(ge=0)
    id: str


class ErrorAnswer(_Answer):
    """The record has no answer, and why."""

    status: Literal["error"]
    error: ProblemBody


class _GoodAnswer(_Answer):
    status: Literal["ok"]
    model: str = Field(description="the fingerprint of the bundle that gave it")


class TextsAnswer(_GoodAnswer):
    """The texts of a record, best first."""

    texts: list[TextOut]


class PlansAnswer(_GoodAnswer):
    """The plans of a record, most likely first."""

    plans: list[PlanOut]


class AlignedAnswer(_GoodAnswer):
    """A text's facts, in its order."""

    facts: list[AlignedFactOut]
    log_likelihood: float = Field(description="log p(text | record), over all plans")


class GenerateResponse(BaseModel):
    """An answer for each record, in the order of the request."""

    answers: list[TextsAnswer | ErrorAnswer]


class PlanResponse(BaseModel):
    """An answer for each record, in the order of the request."""

    answers: list[PlansAnswer | ErrorAnswer]


class AlignResponse(BaseModel):
    """An answer for each record, in the order of the request."""

    answers: list[AlignedAnswer | ErrorAnswer]


class StreamEnd(BaseModel):
    """The last line of a stream; a stream without it was cut off."""

    status: Literal["end"]
    records: int
    ok: int
    errors: int
    error: ProblemBody | None = Field(default=None, description="why the rest of the input was not read")


class ModelResponse(BaseModel):
    """What is served, its settings, and what a request may ask for."""

    fingerprint: str
    address: str
    facts: str = Field(description="what cut the training texts")
    largest_group: int
    predicates: int
    metrics: dict[str, float | None]
    model: dict[str, Any]
    inference: dict[str, Any]
    limits: dict[str, float]


class HealthResponse(BaseModel):
    """The process answers."""

    status: Literal["alive", "ready"]
    model: str | None = None


# --- checks ---------------------------------------------------------------------------------------------------------


_Model = TypeVar("_Model", bound=BaseModel)


def checked(model: type[_Model], data: Any, prefix: str = "", strict: bool = True, code: str = "invalid") -> _Model:
    """`data` as a `model`.

    Raises:
        Problem: names the first wrong field (behind `prefix`), and the nearest name of an unknown one; quotes no input.
    """
    what = prefix or ("the record" if code == "record" else "the body")
    if not isinstance(data, dict):
        raise Problem(code, f"{what} must be an object, not {_KINDS.get(type(data), 'null')}", field=prefix or None)
    try:
        return model.model_validate(data, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        unknown = first["type"] == "extra_forbidden"
        *parts, last = first["loc"] or ("",)  # no place: a key is no Unicode
        path = [part for part in parts if part not in _TAGS] + ([last] if unknown or last not in _TAGS else [])
        place = ".".join(map(str, [prefix, *path] if prefix else path))
        detail = first["msg"]
        if unknown:
            name, known = str(last), list((TripleObject if parts else model).model_fields)
            near = get_close_matches(name, known, 1)
            detail = f"there is no {name!r} here; " + (f"did you mean {near[0]!r}?" if near else f"known: {known}")
        raise Problem(code, f"{place or what}: {detail}", field=place or None) from None
