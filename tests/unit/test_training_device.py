"""Training steps never synchronise with the device; tested without a GPU.

Tensors on the device "meta" have shapes but no values, so operations that read a value (`item`, `nonzero`, a boolean
index, a copy to main memory) fail here; on a GPU, they would wait for its queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agggen.training.loop import Stage
from tests.unit.model.enumeration import tiny_model
from tests.unit.toy_training import ALL, CONFIG, trainer

COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class OneDevice(TorchDispatchMode):
    """Fails on operations that mix tensors of two devices, and on blocking copies to the device."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        devices = {tensor.device.type for tensor in tensors if tensor.dim()}
        result = func(*args, **kwargs)
        if func in COPIES:
            crossed = isinstance(result, Tensor) and result.device.type == "meta" and devices == {"cpu"}
            assert not crossed or kwargs.get("non_blocking"), f"blocking copy: {func}"
        else:
            assert len(devices) <= 1, f"{func} mixes {devices}"
        return result


@pytest.mark.parametrize(
    ("stage", "history", "penalty", "omission_weight"),
    [
        ("baseline", "shared", None, 0.0),
        ("joint", "shared", None, 1.0),
        ("joint", "masked", None, 0.0),
        ("joint", "shared", 2.0, 0.0),
    ],
)
def test_an_epoch_of_updates_does_not_wait_for_its_device(
    stage: Stage, history: Literal["shared", "masked"], penalty: float | None, omission_weight: float
) -> None:
    config = replace(CONFIG, alignment_penalty=penalty, omission_weight=omission_weight, log_every=1000)
    training = trainer(stage, config, model=tiny_model(seed=3, history=history, coverage=True).to("meta"))
    for update in training._updates([ALL, ALL[:4]]):
        training._update(update)  # builds the cached lattices
        with OneDevice():
            training._update(update)


def test_updates_prepared_in_the_background_equal_those_of_a_cpu() -> None:
    batches = [ALL[:3], ALL[3:6], ALL[:1]]
    on_meta, on_cpu = (trainer("joint", model=tiny_model().to(name)) for name in ("meta", "cpu"))
    for training in (on_meta, on_cpu):
        training.progress.batch = 1
    pairs = list(zip(on_meta._updates(batches), on_cpu._updates(batches), strict=True))
    assert [update.indices for update, _ in pairs] == batches[1:]
    for update, cpu_update in pairs:
        assert update.positions == cpu_update.positions and update.batch and cpu_update.batch
        assert update.batch.source.device.type == "meta"
        assert torch.equal(update.batch.on_cpu.targets, cpu_update.batch.targets)
    on_meta.progress.batch = len(batches)
    assert list(on_meta._updates(batches)) == []
