"""Checkpoints: the complete training state, as tensors and JSON in one safetensors file, without pickles.

Files are written atomically and do not depend on the number of workers, so any number of workers may resume.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from agggen.config import flatten
from agggen.errors import TrainingError
from agggen.files import save_tensors
from agggen.training.loop import Progress, Trainer

FORMAT = 2


@dataclass(frozen=True)
class Snapshot:
    """A copy of a trainer's state in main memory, which can be written while training continues."""

    stage: str
    step: int
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, Any]

    @staticmethod
    def of(trainer: Trainer) -> Snapshot:
        """Copies the state; TrainingError if the last update was not finite."""
        trainer.check_finite()
        tensors = {f"model.{name}": tensor for name, tensor in trainer.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in trainer.best.items()}
        for index, state in trainer.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        metadata = _identity(trainer) | {"progress": asdict(trainer.progress)}
        return Snapshot(trainer.stage, trainer.progress.step, copies, metadata)

    def write(self, path: Path) -> None:
        """Writes the checkpoint atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        save_tensors(temporary, self.tensors, {"agggen": json.dumps(self.metadata)})
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)


class FileCheckpointer:
    """Stores one checkpoint per stage in a local folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def restore(self, trainer: Trainer) -> bool:
        path = self._path(trainer)
        if path.exists():
            load_checkpoint(path, trainer)
        return path.exists()

    def save(self, trainer: Trainer) -> None:
        Snapshot.of(trainer).write(self._path(trainer))

    def _path(self, trainer: Trainer) -> Path:
        return self.folder / f"{trainer.stage}.safetensors"


def _identity(trainer: Trainer) -> dict[str, Any]:
    """The settings that must be equal in a checkpoint and in a run that resumes from it."""
    return {
        "format": FORMAT,
        "stage": trainer.stage,
        "seed": trainer.seed,
        "config": asdict(trainer.config),
        "model": asdict(trainer.model.config),
        "texts": trainer.fingerprint,
    }


def load_checkpoint(path: Path, trainer: Trainer) -> None:
    """Restores a checkpoint; TrainingError if it is damaged or has another stage, seed, setting, model or corpus."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})["agggen"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        progress, stored = Progress(**metadata["progress"]), flatten(metadata)
    except (SafetensorError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} is not a readable checkpoint ({error}); delete it to start over") from error
    for key, expected in flatten(_identity(trainer)).items():
        if (value := stored.get(key)) != expected:
            raise TrainingError(
                f"{path} was written with {key} {value!r}, this run has {expected!r}; "
                "continue with the same configuration and corpus, or delete the checkpoint to start over"
            )
    trainer.progress = progress

    def tensors_of(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    try:
        trainer.model.load_state_dict(tensors_of("model."))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise TrainingError(f"{path} does not fit this model ({reason}); delete it to start over") from error
    trainer.best = tensors_of("best.")
    optimizer_state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors_of("optimizer.").items():
        index, key = name.split(".", 1)
        optimizer_state.setdefault(int(index), {})[key] = tensor
    param_groups = trainer.optimizer.state_dict()["param_groups"]
    trainer.optimizer.load_state_dict({"state": optimizer_state, "param_groups": param_groups})
