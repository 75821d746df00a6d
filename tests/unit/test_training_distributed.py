"""Data-parallel training: real processes over gloo against a single process."""

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from agggen.errors import TrainingError
from agggen.model.joint import JointModel
from agggen.training.callbacks import CheckpointEvery
from agggen.training.checkpoints import FileCheckpointer
from agggen.training.distributed import SINGLE_WORKER, DistributedGroup, WorkerGroup, worker_share
from agggen.training.loop import Stage
from tests.unit.model.enumeration import tiny_model
from tests.unit.toy_training import ALL, CONFIG, STAGES, TRAIN, Log, fresh_model, same, trainer, weights

KINDS = ("invariant", "resumed", "whole")


def gradients(stage: Stage, indices: list[int], group: WorkerGroup) -> dict[str, Tensor]:
    """The gradients of one update in float64, without dropout."""
    model = tiny_model(seed=3, predicate_dropout=0.0)
    training = trainer(stage, replace(CONFIG, clip=1e9), model=model, group=group)
    update = training._prepare(indices, 0)
    total, norm = training._update(update)
    tensors = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return tensors | {"(numbers)": torch.tensor([total, update.positions, norm], dtype=torch.float64)}


def whole_run(stage: Stage, group: WorkerGroup) -> dict[str, Tensor]:
    """The weights and losses of a run in float64, without dropout."""
    log, model = Log(), tiny_model(seed=3, predicate_dropout=0.0)
    trainer(stage, replace(CONFIG, epochs=2), model=model, callbacks=[log], group=group).run()
    return weights(model) | {"(losses)": torch.tensor(log.losses + log.dev_losses, dtype=torch.float64)}


def resumed(folder: Path, group: WorkerGroup) -> tuple[JointModel, JointModel, dict[str, Any]]:
    """The models of a run with dropout that the last worker stops and new trainers resume, and of a whole run."""
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
    return second.model, whole.model, facts


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
    invariant = invariant_results(group)
    second, whole, facts = resumed(folder / "runs", group)
    for kind, tensors in zip(KINDS, (invariant, weights(second), weights(whole)), strict=True):
        save_file(tensors, folder / f"{kind}-{rank}.safetensors")
    facts |= {
        "group": [group.rank, group.size],
        "text": group.broadcast(f"Café {rank} 🂡"),
        "empty": group.broadcast(""),
        "any": [group.any(False), group.any(rank == size - 1), group.any(True)],
        "error": error_with_nan_weights(group),
    }
    (folder / f"facts-{rank}.json").write_text(json.dumps(facts))
    dist.destroy_process_group()


@dataclass(frozen=True)
class Workers:
    """The output of the processes of a group, by rank."""

    tensors: dict[str, list[dict[str, Tensor]]]
    facts: list[dict[str, Any]]
    folder: Path


@pytest.fixture(scope="module", params=[2, 3])
def workers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workers:
    folder = tmp_path_factory.mktemp(f"workers-{request.param}")
    ranks = range(request.param)
    processes.spawn(run_worker, (request.param, folder), nprocs=request.param)
    tensors = {kind: [load_file(folder / f"{kind}-{rank}.safetensors") for rank in ranks] for kind in KINDS}
    return Workers(tensors, [json.loads((folder / f"facts-{rank}.json").read_text()) for rank in ranks], folder)


def test_results_equal_those_of_one_worker(workers: Workers) -> None:
    single_process = invariant_results(SINGLE_WORKER)
    for tensors in workers.tensors["invariant"]:
        assert tensors.keys() == single_process.keys(), "other parameters have gradients"
        for name, tensor in single_process.items():
            torch.testing.assert_close(tensors[name], tensor, rtol=1e-9, atol=1e-12, msg=name)


def test_all_workers_have_bit_identical_weights(workers: Workers) -> None:
    for tensors in workers.tensors.values():
        assert all(same(one, other) for one, other in pairwise(tensors))


def test_a_stopped_distributed_run_resumes_exactly(workers: Workers) -> None:
    assert all(map(same, workers.tensors["resumed"], workers.tensors["whole"]))


def test_the_checkpoint_of_several_workers_continues_with_one(workers: Workers) -> None:
    assert all(facts["restored"] for facts in workers.facts)
    one = trainer(model=fresh_model(1))
    FileCheckpointer(workers.folder / "runs").restore(one)
    assert one.progress.step == 6
    assert one.run().step == one.total_steps
    before = weights(one.model)
    FileCheckpointer(workers.folder / "runs" / "second").restore(one)
    assert one.progress.epoch == CONFIG.epochs and before.keys() == weights(one.model).keys()


def test_texts_stop_requests_and_errors_reach_all_workers(workers: Workers) -> None:
    """Otherwise workers would wait for each other forever."""
    for rank, facts in enumerate(workers.facts):
        assert facts["group"] == [rank, len(workers.facts)]
        assert (facts["text"], facts["empty"]) == ("Café 0 🂡", "")
        assert facts["any"] == [False, True, True]
        assert (facts["stopped_at"], facts["done"]) == (6, False), "workers stopped at different updates"
        assert "update 1: loss nan and gradient norm nan must be finite" in facts["error"]
    assert len({facts["seeds"] for facts in workers.facts}) == len(workers.facts), "workers must draw different dropout"


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60), st.integers(1, 9))
def test_shares_partition_a_batch_by_cost(costs: list[int], size: int) -> None:
    shares = [worker_share(costs, rank, size) for rank in range(size)]
    assert [index for part in shares for index in part] == list(range(len(costs)))
    for part in shares:
        assert sum(costs[index] for index in part) <= sum(costs) / size + max(costs)


@pytest.mark.parametrize(
    ("costs", "size", "shares"),
    [
        ([1, 1, 1, 9], 2, [[0, 1, 2], [3]]),
        ([9, 1, 1, 1], 3, [[], [0], [1, 2, 3]]),
        ([0, 0], 2, [[0, 1], []]),
    ],
)
def test_shares(costs: list[int], size: int, shares: list[list[int]]) -> None:
    assert [list(worker_share(costs, rank, size)) for rank in range(size)] == shares
