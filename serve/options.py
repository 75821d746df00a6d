"""What a request's options come to: within the configuration's limits, and as settings of the search."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from agggen.generation.generator import InferenceConfig
from agggen_platform.serving.config import LimitsConfig
from serve.engine import ModelCard
from serve.errors import Problem
from serve.schemas import AlignOptions, CheckOptions, GenerateOptions, Options, PlanOptions, RealiseOptions

_Options = TypeVar("_Options", GenerateOptions, RealiseOptions, PlanOptions, AlignOptions, CheckOptions)


def bounded(options: _Options, limits: LimitsConfig, card: ModelCard) -> _Options:
    """The options, which are within the limits and the model's groups; a default that is not becomes the limit.

    Raises:
        Problem: names the option that was asked for and what it may be.
    """
    defaults = {}
    for name, largest in (*largest_options(limits).items(), ("level", card.largest_group)):
        value = getattr(options, name, None)
        if value is None or value <= largest:
            continue
        if name in options.model_fields_set:
            detail = f"options.{name} is {value}; it may be at most {largest}"
            raise Problem("invalid", detail, field=f"options.{name}")
        defaults[name] = largest
    return options.model_copy(update=defaults)


def largest_options(limits: LimitsConfig) -> dict[str, int]:
    """The largest value of each option that the limits bound."""
    return {"n_best": limits.n_best, "beam": limits.beam, "plans": limits.plans, "k": limits.plans}


def inference(options: Options, own: InferenceConfig) -> InferenceConfig:
    """The bundle's own settings with what the request asks for."""
    asked = {
        name: value
        for name in ("level", "plans", "planner", "top_p", "ablation", "seed", "verify")
        if (value := getattr(options, name, None)) is not None
    }
    beam = getattr(options, "beam", None)
    return replace(own, **asked, beam=own.beam if beam is None else replace(own.beam, beam=beam))
