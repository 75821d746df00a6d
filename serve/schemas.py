"""Pydantic models of the request bodies; the models of the answers are in `agggen_platform.client.answers`.

Records and options are skipped (`SkipValidation`) and validated one by one afterwards.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, SkipValidation, Tag, ValidationError

from agggen.generation.config import InferenceConfig
from agggen_platform.serving.config import LimitsConfig
from serve.errors import Problem

_NO_CONTROLS = "[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f]*"
_NOT_BLANK = f"^{_NO_CONTROLS}[^\\s\\u0000-\\u001f]{_NO_CONTROLS}$"  # some visible character, and no control characters
_PLAN: dict[str, Any] = {"pattern": r"^\s*\[[^\[\]]+\][\s\S]*$"}  # checks the beginning; `Plan.parse` checks the rest

_TAGS = ("as-list", "as-object", "str", "int")  # added by pydantic to the locations of errors

_TRIPLES = [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]
_EXAMPLE: dict[str, Any] = {"id": "Si", "triples": _TRIPLES}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Part = Annotated[str, Field(min_length=1, json_schema_extra={"pattern": _NOT_BLANK})]
Subject = Annotated[str, Field(json_schema_extra={"pattern": f"^$|{_NOT_BLANK}"}, description='"" if there is none')]


class TripleObject(_Body):
    """One fact with named parts."""

    subject: Subject
    predicate: Part
    object: Part


_TRIPLE = '[subject, predicate, object]; the subject is "" if the triple has no named subject'
TripleList = Annotated[list[Subject], Field(min_length=3, max_length=3, description=_TRIPLE)]
TripleIn = Annotated[
    Annotated[TripleList, Tag("as-list")] | Annotated[TripleObject, Tag("as-object")],
    Discriminator(lambda value: "as-object" if isinstance(value, dict) else "as-list"),
]


def _allow_row(example: dict[str, Any]) -> ConfigDict:
    """Schema changes that let a record have, instead of `triples`, a key for each predicate, like a table row."""

    def extend(schema: dict[str, Any]) -> None:
        schema["required"] = [name for name in schema["required"] if name != "triples"]
        schema["additionalProperties"] = {"description": "if `triples` is missing: a predicate and its value or values"}
        schema["examples"] = [example]

    return ConfigDict(json_schema_extra=extend)


class RecordIn(_Body):
    """A record: `triples`, or a key for each predicate, like a row of a table (`{"name": "Silicon", "symbol": "Si"}`;
    `name` or `title` is the subject). `references` and `category`, which corpora have, are ignored."""

    model_config = _allow_row(_EXAMPLE)

    id: str | int | None = Field(default=None, description="returned with the answer; unique; default: the index")
    triples: list[TripleIn] = Field(min_length=1)
    references: list[Any] | None = Field(default=None, description="ignored")
    category: str | None = Field(default=None, description="ignored")


class GenerateRecord(RecordIn):
    """A record, and optionally a plan that its text follows exactly; without a plan, the model chooses one."""

    model_config = _allow_row(_EXAMPLE | {"plan": "[category symbol]"})

    plan: str | None = Field(
        default=None, min_length=1, json_schema_extra=_PLAN, description="like `[category symbol] [namedAfter]`"
    )


class CheckRecord(RecordIn):
    """A record and a text about it, from any source."""

    model_config = _allow_row(_EXAMPLE | {"text": "Silicon (Si) is a metalloid."})

    text: str = Field(min_length=1)


class AlignRecord(CheckRecord):
    """A record and a text about it."""

    facts: list[str] | None = Field(default=None, min_length=1, description="segments that form `text`")


class _SearchOptions(_Body):
    level: int | None = Field(
        default=None, ge=0, description="largest number of triples in a fact; 1: no aggregation; 0: the model's limit"
    )
    planner: Literal["exact", "two-stage", "sample"] | None = Field(
        default=None, description="exact: the most probable plans; two-stage: the paper's search; sample: sampled plans"
    )
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="for sampling: total probability of the groups that are drawn from"
    )
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="for sampling and random-order")


class PlanOptions(_SearchOptions):
    """How plans are searched. The defaults are the model's own settings (`GET /v1/model`)."""

    k: int = Field(default=5, ge=1, description="plans for each record, best first")


class GenerateOptions(_SearchOptions):
    """How plans are searched and texts written. The defaults are the model's own settings."""

    n_best: int = Field(default=1, ge=1, description="texts for each record, best first")
    plans: int | None = Field(default=None, ge=1, description="plans for which texts are generated, for each record")
    ablation: Literal["none", "random-order", "no-aggregation", "plain"] | None = None
    beam: int | None = Field(default=None, ge=1, description="hypotheses of the beam search")
    complete: bool = Field(default=False, description="add predicates that a record's plan omits; else an error")
    verify: Literal["strict", "off"] | None = Field(
        default=None,
        description="`strict`: every fact contains the complete values of its triples and passes the strict check; "
        "where the beam search finds no such text, a wording from the training texts or a plain clause replaces it "
        "(`fallback`). `off`: unconstrained search. `fulfilled`, `missing` and `faults` always report the strict check",
    )
    alone: bool = Field(
        default=False,
        description="do not batch these records (up to 64) with other requests: a repeated request then returns "
        "exactly equal numbers (batching changes their last digits); other requests wait meanwhile",
    )


class NoOptions(_Body):
    """No options."""


Options = TypeVar("Options", GenerateOptions, PlanOptions, NoOptions)


class GenerateRequest(_Body):
    """Records to generate texts for."""

    records: list[SkipValidation[GenerateRecord]] = Field(min_length=1)
    options: SkipValidation[GenerateOptions] = GenerateOptions()


class PlanRequest(_Body):
    """Records to plan."""

    records: list[SkipValidation[RecordIn]] = Field(min_length=1)
    options: SkipValidation[PlanOptions] = PlanOptions()


class AlignRequest(_Body):
    """Records and texts about them."""

    records: list[SkipValidation[AlignRecord]] = Field(min_length=1)
    options: SkipValidation[NoOptions] = NoOptions()


class CheckRequest(_Body):
    """Records and texts to check against them."""

    records: list[SkipValidation[CheckRecord]] = Field(min_length=1)
    options: SkipValidation[NoOptions] = NoOptions()


RequestBody = GenerateRequest | PlanRequest | AlignRequest | CheckRequest


def options_within_limits(options: Options, limits: LimitsConfig, largest_group: int) -> Options:
    """The options; a default above a limit becomes the limit. Raises Problem if the request exceeds a limit."""
    limit_of = {"n_best": limits.n_best, "beam": limits.beam, "plans": limits.plans, "k": limits.plans}
    defaults = {}
    for name, limit in (limit_of | {"level": largest_group}).items():
        value = getattr(options, name, None)
        if value is None or value <= limit:
            continue
        if name in options.model_fields_set:
            raise Problem("invalid", f"options.{name} is {value}; it may be at most {limit}", field=f"options.{name}")
        defaults[name] = limit
    return options.model_copy(update=defaults)


def inference(options: GenerateOptions | PlanOptions, bundle: InferenceConfig) -> InferenceConfig:
    """The settings of the bundle, overridden by those of the request."""
    settings = {"level", "plans", "planner", "top_p", "ablation", "seed", "verify"}
    requested = options.model_dump(include=settings, exclude_none=True)
    beam = getattr(options, "beam", None)
    return replace(bundle, **requested, beam=bundle.beam if beam is None else replace(bundle.beam, beam=beam))


_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], data: Any, prefix: str = "", code: str = "invalid") -> _Model:
    """Validates `data` as `model`; raises Problem, which names the first invalid field (after `prefix`)."""
    subject = prefix or ("the record" if code == "record" else "the body")
    if not isinstance(data, dict):
        raise Problem(code, f"{subject} must be a JSON object", field=prefix or None)
    try:
        return model.model_validate(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        valid_names = (TripleObject if len(first["loc"]) > 1 else model).model_fields
        raise problem_at(first, [prefix] if prefix else [], valid_names, code, subject) from None


def problem_at(
    error: Mapping[str, Any],
    prefix: list[str],
    valid_names: Iterable[str],
    code: str = "invalid",
    subject: str = "the query",
) -> Problem:
    """Converts an error of pydantic to a problem; for an unknown name, suggests a similar one of `valid_names`."""
    *parts, last = error["loc"] or ("",)  # no location: a key is not Unicode
    unknown = error["type"] == "extra_forbidden"
    path = [part for part in parts if part not in _TAGS] + ([last] if unknown or last not in _TAGS else [])
    location, detail = ".".join(map(str, [*prefix, *path])), error["msg"]
    if unknown:
        similar = get_close_matches(str(last)[:100], valid_names, 1)  # truncated: megabytes would take seconds
        hint = f"did you mean {similar[0]!r}?" if similar else f"known: {list(valid_names)}"
        detail = f"unknown name {str(last)!r}; {hint}"
    return Problem(code, f"{location or subject}: {detail}", field=location or None)
