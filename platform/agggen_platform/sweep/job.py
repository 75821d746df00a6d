"""Runs a sweep and registers its best bundle; the same call resumes an interrupted sweep."""

import hashlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from agggen.config import Scalar, as_overrides, config_hash, resolved
from agggen.errors import AggGenError, ConfigError
from agggen_platform.job_config import JobConfig, run_config_of
from agggen_platform.ray_cluster import connected
from agggen_platform.registry import Version, register
from agggen_platform.registry.registration import accepts_address
from agggen_platform.registry.store import registry_uri
from agggen_platform.storage.claim import claim
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.sweep.config import (
    STAGES,
    SweepConfig,
    SweepError,
    check_space,
    extremes,
    maximum,
    parse_space,
    trial_config,
)
from agggen_platform.sweep.study import Epochs, Study, columns, description, open_study, rows, table
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.backup import log_backup
from agggen_platform.tracking.origin import command_line, masked
from agggen_platform.training.job import data_of, tracker_of

_log = logging.getLogger(__name__)
_DATA_KEYS = ("corpus.", "facts.", "training.start")  # prefixes of the keys that select data


class Terminated(KeyboardInterrupt):
    """The sweep was stopped by SIGTERM."""


@dataclass(frozen=True)
class Progress:
    ended: int
    total: int
    trial: FrozenTrial  # the trial that has just ended
    best: FrozenTrial | None  # None if no trial has finished


@dataclass(frozen=True)
class SweepReport:
    name: str
    columns: list[str]
    rows: list[list[object]]
    best: FrozenTrial
    bundle: str  # the address of the best trial's bundle
    version: Version | None  # the model version of the bundle; None if it is not registered
    refusal: AggGenError | None  # why the bundle was not registered
    registry: str  # the registry's URI
    trials_run: int  # number of trials that this call ran or resumed
    seconds: float
    ui_command: str


def sweep(
    config: JobConfig,
    settings: SweepConfig,
    name: str | None = None,
    *,
    runs_dir: Path = Path("runs"),
    overrides: Sequence[str] = (),
    model: str | None = "agggen",
    show: Callable[[Progress], None] = lambda progress: None,
    on_name: Callable[[str], None] = lambda name: None,
) -> SweepReport:
    """Runs the remaining trials of a sweep, and registers the best bundle with the alias candidate.

    Args:
        config: the configuration of all trials; a trial only changes keys of the space.
        name: by default a hash of the settings, configuration, data and segmenter.
        overrides: the user's overrides, which `config` contains already; they must not set a key of the space.
        model: the best bundle is registered as a version of this model; None: it is not registered.

    Raises ConfigError if the space does not fit the configuration, a sweep with other settings has this name, the
    registry does not accept bundles from the store, or the address is for Ray Client; ClaimedError if this sweep is
    already running; ClusterError if the cluster does not exist or is too small; SweepError if no trial finished.
    """
    start_time = time.monotonic()
    address = config.cluster.address or os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise ConfigError(
            f"a sweep cannot run through Ray Client ({address}): Ray Tune must run on the cluster itself. Submit the "
            "sweep with ray job submit, or start it on a node of the cluster with cluster.address=auto"
        )
    space = parse_space(settings.space)
    check_space(space, config, overrides)
    epochs = Epochs(*(maximum(space, config, f"training.{stage}.epochs") for stage in STAGES))
    if not getattr(epochs, settings.stage):
        raise ConfigError(f"no trial can report {settings.metric}: training.{settings.stage}.epochs is 0 in all trials")
    runs_dir = runs_dir.resolve()
    registry = registry_uri(config.tracking.uri, runs_dir)
    store = config.storage.url or str(runs_dir)
    if model and not accepts_address(registry, store):
        raise ConfigError(
            f"the registry {masked(registry)} accepts no bundle from {store}, a folder: set storage.url to "
            "s3://bucket/prefix, or do not register the best bundle (--no-register)"
        )
    identity = _identity(config, settings)
    name = name or f"sweep-{hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]}"
    tracker = tracker_of(config.tracking, name, runs_dir, {"kind": "sweep"})
    folder = runs_dir / name
    with ExitStack() as stack:
        stack.enter_context(_sigterm_as_interrupt())
        check_claims = [stack.enter_context(claim(Folder(str(folder))))]
        store_folder = Folder(Folder(store).at(name))
        if store_folder.local is None or store_folder.local.resolve() != folder:  # other machines may use it
            check_claims.append(stack.enter_context(claim(store_folder)))
            stack.enter_context(log_backup(folder, store_folder, ("tune",), check_claims[-1], _log.warning))
        on_name(name)
        study = Study(open_study(folder, name, identity), settings, space, epochs)
        trials_run = study.remaining
        stack.enter_context(tracker)
        params: dict[str, Scalar] = {"metric": settings.metric, "seed": settings.seed}
        params["asha"] = json.dumps(identity["early stopping"])
        params |= {f"space/{key}": json.dumps(values) for key, values in settings.space.items()}
        tracker.log_params(params)
        # Hashes are tags, not parameters, which MLflow's pages would plot.
        tracker.set_tags(
            {"config_hash": identity["configuration"], "segmenter": identity["segmenter"]}
            | {f"data/{split}": digest for split, digest in identity["data"].items()}
        )
        if trials_run:
            _run_remaining_trials(study, config, name, runs_dir, tracker, show, check_claims)
        tracker.log_text(table(study), "trials.csv")
        tracker.set_tags({"mlflow.note.content": description(study)})
        best = study.best()
        if best is None:
            failures = study.trials(TrialState.FAIL)
            reason = f"; trial {failures[0].number}: {failures[0].user_attrs['reason']}" if failures else ""
            raise SweepError(f"no trial finished, {len(failures)} of {len(study.trials())} failed{reason}")
        tracker.log_text("\n".join(as_overrides(best.params)) + "\n", "best-overrides.txt")
        bundle = best.user_attrs["bundle"]
        version = refusal = None
        if model:
            tags = {"sweep": name, "trial": str(best.number)}
            try:
                version = register(bundle, model, {settings.metric: best.value or 0.0}, tags, uri=registry)
                tracker.set_tags({"registered": str(version), "bundle": bundle})
            except AggGenError as error:  # the caller still gets the results of the trials
                refusal = error
    results = columns(study), rows(study), best, bundle, version, refusal, registry, trials_run
    return SweepReport(name, *results, time.monotonic() - start_time, tracker.ui_command())


def _run_remaining_trials(
    study: Study,
    config: JobConfig,
    name: str,
    runs_dir: Path,
    tracker: Tracker,
    show: Callable[[Progress], None],
    check_claims: Sequence[Callable[[], None]],
) -> None:
    def on_trial_end(number: int) -> None:
        for check_claim in check_claims:
            with suppress(StorageError):  # the store does not answer, so the claim may still be valid
                check_claim()
        best = study.best()
        total = max(study.config.trials, len(study.trials()))
        progress = Progress(total - study.remaining, total, study.trials()[number], best)
        values = {"trials": float(progress.ended)}
        if best is not None and best.value is not None:
            values |= {"best": best.value, "best_trial": float(best.number)}
        tracker.log_metrics(values, step=progress.ended)
        show(progress)

    # A local cluster needs a dashboard to free the resources of a dead trial's workers.
    with connected(config.cluster.address, dashboard=config.cluster.workers > 0), _sigterm_as_interrupt():
        from agggen_platform.sweep.trials import TrialJob, run_trials  # imports Ray Tune

        run_trials(study, TrialJob(config, name, runs_dir, Path.cwd(), command_line()), on_trial_end)


def _identity(config: JobConfig, settings: SweepConfig) -> dict[str, Any]:
    """All settings, corpora and start bundles that affect the trials; not the number of trials, which may increase."""
    space, values = parse_space(settings.space), resolved(settings)
    data_values = {key: extremes(space[key]) for key in space if key.startswith(_DATA_KEYS)}
    fingerprints: dict[str, str] = {}
    segmenters: set[str] = set()
    for combination in product(*data_values.values()):
        try:
            trial = trial_config(config, dict(zip(data_values, combination, strict=True)))
            data = data_of(trial)
        except ConfigError:  # an invalid combination; a trial with these values fails with this reason
            continue
        fingerprints |= data.fingerprints
        if data.start:
            fingerprints[f"start {trial.training.start}"] = data.start.fingerprint
        segmenters.add(data.segmenter)
    return {
        "space": values["space"],
        "metric": settings.metric,
        "seed": settings.seed,
        "early stopping": values["asha"],
        "configuration": config_hash(run_config_of(config)),
        "data": fingerprints,
        "segmenter": ", ".join(sorted(segmenters)),
    }


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """In the block, SIGTERM acts like Ctrl-C and raises `Terminated`; Ray's own handler would exit immediately."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    was_terminated = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal was_terminated
        was_terminated = True
        interrupt_handler = signal.getsignal(signal.SIGINT)  # while trials run, Tune's, which stops them gracefully
        if callable(interrupt_handler):
            interrupt_handler(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if was_terminated:
            raise Terminated from None
        raise
    finally:
        for number, handler in handlers.items():  # Tune does not restore the handlers
            signal.signal(number, handler)
