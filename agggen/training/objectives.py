"""The two losses, as sums over a batch; the loop divides by the number of scored positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from agggen.model.batch import Batch
from agggen.model.joint import JointModel

ObjectiveName = Literal["baseline", "joint"]
Objective = Callable[[JointModel, Batch], Tensor]


def objective(name: ObjectiveName, label_smoothing: float = 0.0, alignment_penalty: float | None = None) -> Objective:
    """The loss `name`: -log p(y | x), summed over a batch.

    baseline: plain Transformer; batches must be collated with `whole=True`; `label_smoothing` is for training only.
    joint: marginal over plans (paper section 3.3), with `alignment_penalty` (see `JointModel.potentials`).
    """

    def baseline(model: JointModel, batch: Batch) -> Tensor:
        return -model.text_log_probs(batch, label_smoothing if model.training else 0.0).sum()

    def joint(model: JointModel, batch: Batch) -> Tensor:
        return -model.log_likelihood(batch, alignment_penalty=alignment_penalty).sum()

    return baseline if name == "baseline" else joint
