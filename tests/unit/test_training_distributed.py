"""Data-parallel training: real processes over gloo against a single process."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as processes
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from agggen.training.checkpoints import FileCheckpointer
from agggen.training.distributed import SINGLE_WORKER, worker_share
from tests.unit import training_workers
from tests.unit.toy_training import CONFIG, fresh_model, same, trainer, weights


@dataclass(frozen=True)
class Workers:
    """The output of the processes of a group, by rank."""

    invariant: list[dict[str, Tensor]]
    resumed: list[dict[str, Tensor]]
    facts: list[dict[str, Any]]
    folder: Path


@pytest.fixture(scope="module", params=[2, 3])
def workers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Workers:
    folder = tmp_path_factory.mktemp(f"workers-{request.param}")
    ranks = range(request.param)
    processes.spawn(training_workers.run_worker, (request.param, folder), nprocs=request.param)
    return Workers(
        [load_file(folder / f"invariant-{rank}.safetensors") for rank in ranks],
        [load_file(folder / f"resumed-{rank}.safetensors") for rank in ranks],
        [json.loads((folder / f"facts-{rank}.json").read_text()) for rank in ranks],
        folder,
    )


@pytest.fixture(scope="module")
def single_process() -> dict[str, Tensor]:
    return training_workers.invariant_results(SINGLE_WORKER)


def test_results_equal_those_of_one_worker(workers: Workers, single_process: dict[str, Tensor]) -> None:
    for tensors in workers.invariant:
        assert tensors.keys() == single_process.keys(), "other parameters have gradients"
        for name, tensor in single_process.items():
            torch.testing.assert_close(tensors[name], tensor, rtol=1e-9, atol=1e-12, msg=name)


def test_all_workers_have_bit_identical_weights(workers: Workers) -> None:
    for one, other in (*pairwise(workers.invariant), *pairwise(workers.resumed)):
        assert same(one, other)


def test_a_stopped_distributed_run_resumes_exactly(workers: Workers) -> None:
    for tensors in workers.resumed:
        parts = {
            part: {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in ("resumed.", "whole.")
        }
        assert parts["whole."] and same(parts["resumed."], parts["whole."])


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
