"""Kills a training job where it hurts: a worker in an epoch's middle, the driver. The model must come out the same."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch.multiprocessing as processes

from agggen.bundle import fingerprint, save_bundle
from agggen.config import load_config, resolved
from agggen.corpora.prepared import write_records
from agggen.run import bundle_of, fit, prepare
from agggen.training.checkpoints import FileKeeper
from agggen.training.distributed import Connected
from agggen_platform.job_config import JobConfig, result_of
from agggen_platform.training.job import data_of, train_job
from tests.processes import Running
from tests.ray_head import Head
from tests.unit.training.toy import NAMES, record

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

# Long epochs of small updates: there is always a middle to be killed in.
PRESET = """\
corpus: {name: CORPUS}
facts: {source: sentences}
text: {min_count: 1}
model: {width: 16, heads: 2, layers: 1, feed_forward: 16, predicate_dim: 8, dropout: 0.2}
training:
  threads: 1
  device: cpu
  baseline: {epochs: 3, warmup: 10, max_records: 2, log_every: 1}
  joint: {epochs: 1, warmup: 10, max_records: 2, log_every: 1}
inference: {plans: 1, beam: {beam: 1, max_fact_tokens: 6}}
storage: {checkpoint_seconds: 0.2}
tracking: {uri: "nonsense://x", samples: 0, system_seconds: 0}
"""


class Job(Running):
    """The command in a process of its own; with a Ray cluster of its own, unless it runs on that of `head`."""

    def __init__(self, folder: Path, name: str, workers: int, head: Head | None = None) -> None:
        self.run = folder / "runs" / name
        settings = [f"cluster.workers={workers}", f"cluster.autoscaling={str(head is not None).lower()}"]
        command = ["-m", "agggen_platform.cli.main", "train", "toy.yaml", *settings, "--name", name]
        cluster = head.env | {"RAY_ADDRESS": head.gcs} if head else {}
        super().__init__(command, folder, cluster | {"OMP_NUM_THREADS": "1"})

    def updates(self, stage: str = "baseline") -> list[int]:
        """What the run log has heard of."""
        log = self.run / "tracking.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [e["step"] for e in events if e["event"] == "metrics" and f"{stage}/train_loss" in e["values"]]

    def wait_for_a_checkpoint_in_an_epoch(self) -> None:
        def is_saved() -> bool:
            mark = self.run / "checkpoints" / "baseline" / "latest.json"
            saved = json.loads(mark.read_text())["checkpoints"][0]["step"] if mark.exists() else 0
            return saved % 100 > 0 and max(self.updates(), default=0) >= saved + 2

        self.wait_until(is_saved, "checkpoint in an epoch, and updates after it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    corpus = folder / "toy"
    corpus.mkdir()
    records = [record(f"{name} {number}") for number in range(20) for name in NAMES]
    write_records(corpus / "train.parquet", records, "toy", "train")
    write_records(corpus / "dev.parquet", records[:4], "toy", "dev")
    (folder / "toy.yaml").write_text(PRESET.replace("CORPUS", str(corpus)))
    return folder


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _undisturbed_worker(rank: int, size: int, folder: Path, job_config: JobConfig, out: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out}.rendezvous", rank=rank, world_size=size)
    config, data = result_of(job_config), data_of(job_config)
    prepared = prepare(config, data.train, data.dev)
    model, metrics = fit(config, prepared, FileKeeper(folder / "checkpoints"), group=Connected())
    if rank == 0:
        save_bundle(out, bundle_of(config, prepared, model, metrics, data.fingerprints, resolved(config)))
    dist.destroy_process_group()


def test_a_worker_killed_in_an_epoch_changes_nothing(folder: Path, stack: ExitStack) -> None:
    """Two nodes with a worker each, over gloo, against two plain processes without Ray."""
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
    assert set(updates) == set(range(1, 301)) and updates.count(1) == 1, "it continued, and did not begin anew"
    assert not (local.is_running() or remote.is_running()), "both were started anew"

    job_config = load_config(JobConfig, folder / "toy.yaml")
    processes.spawn(_undisturbed_worker, (2, folder, job_config, folder / "undisturbed"), nprocs=2)
    assert fingerprint(job.run / "bundle") == fingerprint(folder / "undisturbed")


def test_after_the_driver_was_killed_the_same_command_ends_in_the_same_model(folder: Path, stack: ExitStack) -> None:
    """Against this process, without Ray."""
    killed = stack.enter_context(Job(folder, "driver", workers=1))
    killed.wait_for_a_checkpoint_in_an_epoch()
    killed.kill()
    assert not (killed.run / "bundle").exists()
    reached = len(killed.updates())
    continued = stack.enter_context(Job(folder, "driver", workers=1))
    continued.wait_until(lambda: len(continued.updates()) > reached, "an update")
    assert continued.finish() == 0, continued.output()
    updates = continued.updates()
    assert set(updates) == set(range(1, 301)) and updates.count(1) == 1, "it continued, and did not begin anew"

    config = load_config(JobConfig, folder / "toy.yaml")
    undisturbed = train_job(config, "undisturbed", runs_dir=folder / "runs")
    assert fingerprint(continued.run / "bundle") == fingerprint(undisturbed.path)
