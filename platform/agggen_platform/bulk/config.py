"""The configuration of a bulk generation job, and its fingerprint: a hash of all inputs that affect its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agggen.config import flatten
from agggen.errors import check_minima
from agggen.generation.config import InferenceConfig
from agggen_platform.sharded import config as sharded
from agggen_platform.sharded.config import ShardedConfig

SETTINGS = ("n_best", "complete", "unique", "format")
"""The settings outside `inference` that affect the texts."""
FORMAT = 6  # part of the fingerprint; incremented when a code change alters the texts or files of the same job


@dataclass(frozen=True)
class BulkConfig(ShardedConfig):
    inference: InferenceConfig = field(kw_only=True)
    """Settings of the search; by default the bundle's (`model.bulk_config`)."""
    n_best: int = 1
    """The maximum number of texts per record, best first."""
    complete: bool = False
    """True: the model adds predicates that a record's plan omits. False: such records are rejected."""
    unique: bool = True
    """Reject records with the id of an earlier record. False: ids may repeat; the column ``row`` identifies records."""
    format: Literal["parquet", "jsonl"] = "parquet"
    """The format of the output files."""
    critic: str | None = None
    """The critic that computes ``risk`` and scores of texts: ``included``, a folder, s3://... or models:/NAME@ALIAS."""
    gpus_per_actor: float = 0.0
    """GPUs per actor; 0: one CPU and one thread."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_minima(self, {"n_best": 1, "gpus_per_actor": 0})


def job_identity(
    config: BulkConfig, bundle: str, inputs: Sequence[tuple[str, str]], critic: str | None = None
) -> dict[str, Any]:
    """All settings and fingerprints (of the bundle, the critic and each named input file) that affect the output."""
    settings = {f"inference.{key}": value for key, value in flatten(config.inference).items()}
    return {
        "bundle": bundle,
        "input": [digest for _, digest in inputs],
        # If there are several files, the generated id of a record without an id starts with the file's name.
        "names": [name for name, _ in inputs] if len(inputs) > 1 else [],
        **{name: getattr(config, name) for name in SETTINGS},
        **({} if critic is None else {"critic": critic}),
        **settings,
    }


def fingerprint(identity: dict[str, Any]) -> str:
    """The fingerprint of the job with this `job_identity`."""
    return sharded.fingerprint({"format": FORMAT, "job": identity})
