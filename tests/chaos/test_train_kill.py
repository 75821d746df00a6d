"""Kills a worker or the driver of a training job in the middle of an epoch. The model must not change."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch.multiprocessing as processes

from agggen.bundle import fingerprint, save_bundle
from agggen.config import load_config
from agggen.run import bundle_of, fit, prepare
from agggen.training.checkpoints import FileCheckpointer
from agggen.training.distributed import DistributedGroup
from agggen_platform.job_config import JobConfig, run_config_of
from agggen_platform.tracking.journal import entries
from agggen_platform.training.job import data_of, train_job
from tests.processes import Running
from tests.ray_head import Head
from tests.unit.training.toy import write_preset

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


class Job(Running):
    """`agggen train` in another process, on the Ray cluster of `head` or on its own."""

    def __init__(self, folder: Path, name: str, workers: int, head: Head | None = None) -> None:
        self.run = folder / "runs" / name
        settings = [f"cluster.workers={workers}", f"cluster.autoscaling={str(head is not None).lower()}"]
        command = ["-m", "agggen_platform.cli.main", "train", "toy.yaml", *settings, "--name", name]
        cluster = head.env | {"RAY_ADDRESS": head.gcs} if head else {}
        super().__init__(command, folder, cluster | {"OMP_NUM_THREADS": "1"})

    def updates(self) -> list[int]:
        log = self.run / "tracking.jsonl"
        events = [event for event, _ in entries(log) if event is not None] if log.exists() else []
        return [e["step"] for e in events if e["event"] == "metrics" and "baseline/train_loss" in e["values"]]

    def wait_for_a_checkpoint_in_an_epoch(self) -> None:
        def is_saved() -> bool:
            index = self.run / "checkpoints" / "baseline" / "latest.json"
            saved = json.loads(index.read_text())["checkpoints"][0]["step"] if index.exists() else 0
            return saved % 100 > 0 and max(self.updates(), default=0) >= saved + 2

        self.wait_until(is_saved, "checkpoint in an epoch, and updates after it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_preset(tmp_path_factory.mktemp("kill")).parent


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _uninterrupted_worker(rank: int, size: int, folder: Path, job_config: JobConfig, out: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out}.rendezvous", rank=rank, world_size=size)
    config, data = run_config_of(job_config), data_of(job_config)
    prepared = prepare(config, data.train, data.dev)
    model, metrics = fit(config, prepared, FileCheckpointer(folder / "checkpoints"), group=DistributedGroup())
    if rank == 0:
        save_bundle(out, bundle_of(config, prepared, model, metrics, data.fingerprints))
    dist.destroy_process_group()


def test_a_worker_killed_in_an_epoch_changes_nothing(folder: Path, stack: ExitStack) -> None:
    """Two nodes with a worker each, over gloo; compared with two plain processes without Ray."""
    head = Head(folder, stack, cpus=1)
    nodes = [head.running, head.join(folder, stack, cpus=1)]
    job = stack.enter_context(Job(folder, "worker", workers=2, head=head))
    job.wait_for_a_checkpoint_in_an_epoch()
    (local,), (remote,) = [node.children("RayTrainWorker") for node in nodes]
    remote.send_signal(signal.SIGKILL)
    job.wait_until(lambda: "(restart 1)" in job.output(), "workers that train again")
    assert job.finish() == 0, job.output()
    assert "2 of 2 workers train again (restart 1)" in job.output()
    assert "Traceback" not in job.output()
    updates = job.updates()
    assert set(updates) == set(range(1, 301)) and updates.count(1) == 1, "training did not resume from a checkpoint"
    assert not (local.is_running() or remote.is_running()), "a worker was not restarted"

    job_config = load_config(JobConfig, folder / "toy.yaml")
    processes.spawn(_uninterrupted_worker, (2, folder, job_config, folder / "uninterrupted"), nprocs=2)
    assert fingerprint(job.run / "bundle") == fingerprint(folder / "uninterrupted")


def test_the_same_command_resumes_after_the_driver_was_killed(folder: Path, stack: ExitStack) -> None:
    """Compared with training in this process, without Ray."""
    killed = stack.enter_context(Job(folder, "driver", workers=1))
    killed.wait_for_a_checkpoint_in_an_epoch()
    killed.kill()
    assert not (killed.run / "bundle").exists()
    reached = len(killed.updates())
    continued = stack.enter_context(Job(folder, "driver", workers=1))
    continued.wait_until(lambda: len(continued.updates()) > reached, "an update")
    assert continued.finish() == 0, continued.output()
    updates = continued.updates()
    assert set(updates) == set(range(1, 301)) and updates.count(1) == 1, "training did not resume from a checkpoint"

    config = load_config(JobConfig, folder / "toy.yaml")
    uninterrupted = train_job(config, "uninterrupted", runs_dir=folder / "runs")
    assert fingerprint(continued.run / "bundle") == fingerprint(uninterrupted.path)
