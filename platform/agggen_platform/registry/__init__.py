"""The model registry: bundles as versions of a model in MLflow, and aliases of versions.

register("runs/elements-1/bundle")        adds a version of the model `agggen`, with the alias candidate
record("models:/agggen@candidate", DIR)   adds the scores of the report that `agggen evaluate -o DIR` wrote
promote("agggen", "3")                    checks version 3, and gives it the alias champion
rollback("agggen")                        gives the alias champion back to the previous version
resolve("models:/agggen@champion")        returns the address of its bundle
"""

from agggen_platform.registry.address import RegistryError, is_model_address, parse_address
from agggen_platform.registry.evaluations import Gate, evaluations_of
from agggen_platform.registry.registration import PromotionRefused, promote, record, register, resolve, rollback
from agggen_platform.registry.store import Registry, Version

__all__ = [
    "Gate", "PromotionRefused", "Registry", "RegistryError", "Version", "evaluations_of", "is_model_address",
    "parse_address", "promote", "record", "register", "resolve", "rollback",
]  # fmt: skip
