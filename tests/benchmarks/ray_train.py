"""The cost of Ray Train: the job's workers against the plain training loop, on the same batches of a preset.

    AGGGEN_DATA_HOME=... python tests/benchmarks/ray_train.py [--preset webnlg] [--records 800] [--updates 24]
        [--rounds 3] [--workers 1 2] [KEY=VALUE ...]

Updates are those of the joint stage. `bare` is `agggen.run.fit` in this process with one thread, without Ray,
checkpoints or logs. `ray-N` is the same on N Ray Train workers with one CPU each, which report to this process. `kept`
is `bare` as a complete job, which saves a verified checkpoint and logs to MLflow at every window. The variants
alternate. The worker times each window of updates, callbacks included; the best round counts, and all rounds are
printed. All updates must fit into one epoch of `--records`, so that no evaluation is included. The last line is JSON.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from measuring import print_result

from agggen.config import load_config
from agggen.errors import StoppedError
from agggen.model.joint import JointModel
from agggen.run import Prepared, fit
from agggen.training.data import Data
from agggen.training.events import EventReporter, SampleWriter, TrainingEvent
from agggen.training.loop import Trainer
from agggen_platform.job_config import ClusterConfig, JobConfig, run_config_of
from agggen_platform.metrics import TrainingMetrics
from agggen_platform.ray_cluster import connected
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder
from agggen_platform.training.events import WorkerMonitor
from agggen_platform.training.job import data_of, train_job
from agggen_platform.training.on_ray import cluster_for_workers, train_on_workers
from agggen_platform.training.prepared import load_or_prepare

WINDOW = 4  # updates per measurement


class NoCheckpoints:
    def restore(self, trainer: Trainer) -> bool:
        return False

    def save(self, trainer: Trainer) -> None: ...


class SpeedListener:
    """Collects texts per second by window; `has_finished` becomes true after `updates`."""

    def __init__(self, updates: int) -> None:
        self.updates, self.speeds = updates, dict[int, float]()
        self.has_finished = False

    def __call__(self, event: TrainingEvent) -> bool:
        if event.kind == "log":
            self.speeds[event.step] = event.metrics["texts_per_second"]
        self.has_finished = event.step >= self.updates
        return self.has_finished


def run_until_stopped(run: Callable[[], object]) -> None:
    try:
        run()
    except StoppedError:
        return
    raise SystemExit("training ended before --updates: increase --records or reduce --updates")


def fit_bare(config: JobConfig, prepared: Prepared, updates: int) -> dict[int, float]:
    listener = SpeedListener(updates)
    reporter = EventReporter(listener, SampleWriter((), prepared.encoder, config.inference))
    run_until_stopped(
        lambda: fit(run_config_of(config), prepared, NoCheckpoints(), [reporter], stop=lambda: listener.has_finished)
    )
    return listener.speeds


def train_on_ray(config: JobConfig, workers: int, folder: Folder, prepared_at: str, updates: int) -> dict[int, float]:
    listener = SpeedListener(updates)
    run_folder = Folder(folder.at(f"{workers}-{time.monotonic_ns()}"))
    for name in folder.names(prepared_at):
        with folder.open(name) as file:
            run_folder.write(name, file.read())
    config = replace(config, cluster=ClusterConfig(workers=workers))
    with claim(run_folder) as lease, cluster_for_workers(config), TrainingMetrics("benchmark", config) as meter:
        monitor = WorkerMonitor(workers, lambda: None, listener, meter, lambda _: None)
        run_until_stopped(
            lambda: train_on_workers(config, run_folder, prepared_at, (), lease, monitor, lambda: listener.has_finished)
        )
    return listener.speeds


def train_as_job(config: JobConfig, data: Data, runs: Path, updates: int) -> dict[int, float]:
    listener = SpeedListener(updates)

    def show(event: TrainingEvent) -> None:
        if listener(event):
            raise StoppedError("enough")

    frequent = replace(config, storage=replace(config.storage, checkpoint_seconds=0.0))
    run_until_stopped(lambda: train_job(frequent, f"kept-{time.monotonic_ns()}", runs_dir=runs, show=show, data=data))
    return listener.speeds


def seconds_of(speeds: dict[int, float], texts: dict[int, int]) -> float:
    """Seconds per update of a run; the first window is a warm-up."""
    windows = sorted(texts)[1:]
    return sum(texts[step] / speeds[step] for step in windows) / (WINDOW * len(windows))


def main() -> None:
    parser = argparse.ArgumentParser(description="the cost of Ray Train")
    parser.add_argument("--preset", default="webnlg")
    parser.add_argument("--records", type=int, default=800, help="number of training records")
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    settings = [
        *(f"corpus.limit={options.records}", "training.baseline.epochs=0", f"training.joint.log_every={WINDOW}"),
        *("training.device=cpu", "training.threads=1", "storage.checkpoint_seconds=100000", "tracking.samples=0"),
    ]
    config = load_config(JobConfig, options.preset, [*settings, *options.overrides])
    with tempfile.TemporaryDirectory() as scratch, connected("local", cpus=max(options.workers)):
        data = data_of(config)
        folder = Folder(scratch)
        prepared, prepared_at = load_or_prepare(folder, config, data)
        measure: dict[str, Callable[[], dict[int, float]]] = {
            "bare": lambda: fit_bare(config, prepared, options.updates)
        }
        for n in options.workers:
            measure[f"ray-{n}"] = lambda n=n: train_on_ray(config, n, folder, prepared_at, options.updates)  # type: ignore[misc]
        measure["kept"] = lambda: train_as_job(config, data, Path(scratch) / "runs", options.updates)
        seconds: dict[str, list[float]] = {name: [] for name in measure}
        texts = texts_of(config, prepared, options.updates)
        for _ in range(options.rounds):
            for name, run in measure.items():
                seconds[name].append(seconds_of(run(), texts))
                print(f"{name:6s} {seconds[name][-1]:.3f} s an update", flush=True)
    best = {name: min(rounds) for name, rounds in seconds.items()}
    print_result(
        "ray_train",
        preset=options.preset,
        seconds_an_update={name: round(value, 4) for name, value in best.items()},
        over_bare_each_round={
            name: [round(value / bare, 3) for value, bare in zip(rounds, seconds["bare"], strict=True)]
            for name, rounds in seconds.items()
        },
        checkpoint_and_log_seconds=round((best["kept"] - best["bare"]) * WINDOW, 4),
        texts=len(prepared.train),
        updates=options.updates,
    )


def texts_of(config: JobConfig, prepared: Prepared, updates: int) -> dict[int, int]:
    """The number of texts of each window, by its last update."""
    vocabulary = prepared.encoder.vocabulary
    model = JointModel(config.model, len(vocabulary), vocabulary.n_output, len(prepared.encoder.predicates))
    settings = config.training.joint
    batches = Trainer(model, prepared.train, prepared.dev, "joint", settings, config.training.seed)._batches(0)
    sizes = [len(batch) for batch in batches]
    if updates > len(sizes):
        raise SystemExit(f"an epoch has only {len(sizes)} updates; increase --records")
    return {end: sum(sizes[end - WINDOW : end]) for end in range(WINDOW, updates + 1, WINDOW)}


if __name__ == "__main__":
    main()
