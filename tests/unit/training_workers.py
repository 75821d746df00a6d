"""The worker process of test_training_distributed.py, which writes its results to files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor

from agggen.errors import TrainingError
from agggen.training.callbacks import CheckpointEvery
from agggen.training.checkpoints import FileCheckpointer
from agggen.training.distributed import DistributedGroup, WorkerGroup
from agggen.training.loop import Stage
from tests.unit.model.enumeration import tiny_model
from tests.unit.toy_training import ALL, CONFIG, STAGES, TRAIN, Log, fresh_model, gradients, trainer, weights


def whole_run(stage: Stage, group: WorkerGroup) -> dict[str, Tensor]:
    """The weights and losses of a run in float64, without dropout."""
    log, model = Log(), tiny_model(seed=3, predicate_dropout=0.0)
    trainer(stage, replace(CONFIG, epochs=2), model=model, callbacks=[log], group=group).run()
    return weights(model) | {"(losses)": torch.tensor(log.losses + log.dev_losses, dtype=torch.float64)}


def resumed(folder: Path, group: WorkerGroup) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights of a run with dropout that the last worker stops and new trainers resume, and of an uninterrupted run."""
    checkpointer = FileCheckpointer(folder)
    first = trainer(callbacks=[Log(6 if group.rank == group.size - 1 else 0)], group=group)
    facts: dict[str, Any] = {"stopped_at": first.run().step, "done": first.progress.done}
    if group.rank == 0:
        checkpointer.save(first)
    dist.barrier()
    second_callback = CheckpointEvery(FileCheckpointer(folder / "second"))
    second = trainer(model=fresh_model(99), group=group, callbacks=[second_callback])
    facts["restored"] = checkpointer.restore(second)
    facts["seeds"] = second._random_seed()
    second.run()
    whole = trainer(group=group)
    whole.run()
    state = {f"resumed.{n}": t for n, t in weights(second.model).items()}
    return state | {f"whole.{n}": t for n, t in weights(whole.model).items()}, facts


def error_with_nan_weights(group: WorkerGroup) -> str:
    """The error message of this worker if only the last worker's weights are NaN."""
    model = fresh_model()
    if group.rank == group.size - 1:
        with torch.no_grad():
            model.output_bias.fill_(float("nan"))
    try:
        trainer(model=model, train=TRAIN, group=group).run()
    except TrainingError as error:
        return str(error)
    return "nothing"


def invariant_results(group: WorkerGroup) -> dict[str, Tensor]:
    """All results that must not depend on the number of workers."""
    tensors: dict[str, Tensor] = {}
    for stage in STAGES:
        for indices in (ALL, [2]):
            tensors |= {f"{stage} {len(indices)} {key}": t for key, t in gradients(stage, indices, group).items()}
        tensors |= {f"{stage} run {key}": tensor for key, tensor in whole_run(stage, group).items()}
    return tensors


def run_worker(rank: int, size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    group = DistributedGroup()
    save_file(invariant_results(group), folder / f"invariant-{rank}.safetensors")
    states, facts = resumed(folder / "runs", group)
    save_file(states, folder / f"resumed-{rank}.safetensors")
    facts |= {
        "group": [group.rank, group.size],
        "text": group.broadcast(f"Café {rank} 🂡"),
        "empty": group.broadcast(""),
        "any": [group.any(False), group.any(rank == size - 1), group.any(True)],
        "error": error_with_nan_weights(group),
    }
    (folder / f"facts-{rank}.json").write_text(json.dumps(facts))
    dist.destroy_process_group()
