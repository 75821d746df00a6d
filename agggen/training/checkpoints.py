"""A checkpoint holds all that decides the next update, as tensors and JSON in one safetensors file. No pickle.

The file is written beside its place and renamed, so a reader never sees half of one.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from agggen.errors import TrainingError

if TYPE_CHECKING:
    from agggen.training.loop import Trainer

FORMAT = 1


def save_checkpoint(path: Path, trainer: Trainer) -> None:
    """Writes the trainer's whole state to `path` atomically."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {"random.torch": torch.get_rng_state()}
    if trainer.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(trainer.device)
    tensors |= {f"model.{name}": tensor for name, tensor in trainer.model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in trainer.best.items()}
    for index, state in trainer.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
    described = _identity(trainer) | {"progress": asdict(trainer.progress)}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    save_file(contiguous, beside, metadata={"agggen": json.dumps(described)})
    with beside.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(beside, path)


def _identity(trainer: Trainer) -> dict[str, Any]:
    """What a checkpoint and the run that continues from it must have in common."""
    return {
        "format": FORMAT,
        "stage": trainer.stage,
        "seed": trainer.seed,
        "config": asdict(trainer.config),
        "model": asdict(trainer.model.config),
        "texts": trainer.fingerprint,
    }


def load_checkpoint(path: Path, trainer: Trainer) -> None:
    """Puts `trainer` where the checkpoint left off.

    Raises:
        TrainingError: the file is no checkpoint, or one of another stage, seed, configuration, model or corpus.
    """
    from safetensors import SafetensorError, safe_open

    from agggen.training.loop import Progress

    try:
        with safe_open(path, framework="pt") as file:
            described = json.loads((file.metadata() or {}).get("agggen", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise TrainingError(f"{path} is no readable checkpoint ({error}); delete it to start over") from error
    if not isinstance(described, dict):
        raise TrainingError(f"{path} is no checkpoint of a training run; delete it to start over")
    for key, own in _flat(_identity(trainer)).items():
        found = _flat(described).get(key)
        if found != own:
            raise TrainingError(
                f"{path} was written with {key} {found!r}, this run has {own!r}; "
                "continue with the same configuration and corpus, or delete the checkpoint to start over"
            )
    try:
        trainer.progress = Progress(**described["progress"])
        torch.set_rng_state(tensors["random.torch"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise TrainingError(f"{path} is no whole checkpoint ({error}); delete it to start over") from error

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    try:
        trainer.model.load_state_dict(part("model."))
    except RuntimeError as error:
        raise TrainingError(
            f"{path} belongs to a model of another shape: {str(error).splitlines()[-1].strip()}"
        ) from error
    trainer.best = part("best.")
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in part("optimizer.").items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    trainer.optimizer.load_state_dict({"state": state, "param_groups": trainer.optimizer.state_dict()["param_groups"]})
    if "random.cuda" in tensors and trainer.device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random.cuda"], trainer.device)


def _flat(described: dict[str, Any]) -> dict[str, Any]:
    """One level of nesting undone: ``{"config": {"epochs": 3}}`` as ``{"config.epochs": 3}``."""
    flat: dict[str, Any] = {}
    for key, value in described.items():
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
    return flat
