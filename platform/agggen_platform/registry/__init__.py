"""The model registry: bundles as versions of a model in MLflow, and aliases that only move to what passes its checks.

register("runs/elements-1/bundle")        a version of the model `agggen`, its candidate
record("models:/agggen@candidate", DIR)   the scores that `agggen evaluate -o DIR` found
promote("agggen", "3")                    checks the version, then makes it champion
rollback("agggen")                        the champion before
resolve("models:/agggen@champion")        the address of its bundle
"""

from agggen_platform.registry.address import CANDIDATE, CHAMPION, RegistryError, is_model_address, parse_address
from agggen_platform.registry.evaluations import Evaluation, Gate, evaluations_of
from agggen_platform.registry.promotion import Promotion, PromotionRefused, promote, rollback
from agggen_platform.registry.registration import record, register, resolve
from agggen_platform.registry.store import Move, Registry, Version

__all__ = [
    "CANDIDATE",
    "CHAMPION",
    "Evaluation",
    "Gate",
    "Move",
    "Promotion",
    "PromotionRefused",
    "Registry",
    "RegistryError",
    "Version",
    "evaluations_of",
    "is_model_address",
    "parse_address",
    "promote",
    "record",
    "register",
    "resolve",
    "rollback",
]
