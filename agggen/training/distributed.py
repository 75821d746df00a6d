"""Data-parallel training: collective operations of workers, and the partition of a batch among them.

Each worker back-propagates the summed loss of its part of the batch, divided by the scored positions of the complete
batch. DistributedDataParallel requires that every `forward` uses all parameters; here a stage uses only some of them,
and a worker's part may be empty.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


class WorkerGroup:
    """A group of one worker, and the interface of larger groups, in which all workers make the same calls in order."""

    rank, size = 0, 1

    def all_reduce(self, tensor: Tensor) -> None:
        """Replaces `tensor` in place by its sum over all workers; the result is identical on all workers."""

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set on any worker."""
        return flag

    def broadcast(self, value: T) -> T:
        """The `value` of worker 0."""
        return value


SINGLE_WORKER = WorkerGroup()


class DistributedGroup(WorkerGroup):
    """The default process group of torch.distributed (gloo, or NCCL for CUDA), which the caller has initialised."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._device = torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else None

    def all_reduce(self, tensor: Tensor) -> None:
        on_device = tensor.to(self._device)  # the tensor itself, if it is on this device
        dist.all_reduce(on_device)
        if on_device is not tensor:
            tensor.copy_(on_device)

    def any(self, flag: bool) -> bool:
        flags = torch.tensor([int(flag)])
        self.all_reduce(flags)
        return bool(flags.item())

    def broadcast(self, value: T) -> T:
        values = [value]
        dist.broadcast_object_list(values, src=0, device=self._device)
        return values[0]


def worker_share(costs: Sequence[float], rank: int, size: int) -> range:
    """The indices of the examples of worker `rank`: a contiguous part with about 1 / `size` of the cost; may be empty.

    An example belongs to the worker whose part of the cumulative cost contains the midpoint of the example's cost.
    """
    total_cost, cumulative_cost = sum(costs) or 1, 0.0
    owners = []
    for cost in costs:
        owners.append(min(int((cumulative_cost + cost / 2) * size / total_cost), size - 1))
        cumulative_cost += cost
    return range(owners.index(rank), owners.index(rank) + owners.count(rank)) if rank in owners else range(0)


def all_reduce_gradients(model: nn.Module, group: WorkerGroup) -> None:
    """Replaces each gradient by its sum over the workers; it stays None if no worker has one."""
    if group.size == 1:
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    bucket = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters])
    counts = bucket.new_tensor([float(parameter.grad is not None) for parameter in parameters])
    bucket = torch.cat([bucket, counts])
    group.all_reduce(bucket)
    sizes = [parameter.numel() for parameter in parameters]
    *gradients, counts = bucket.split([*sizes, len(parameters)])
    for parameter, gradient, count in zip(parameters, gradients, counts.tolist(), strict=True):
        parameter.grad = gradient.view_as(parameter) if count else None
