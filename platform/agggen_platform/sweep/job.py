"""A sweep from its space to a registered bundle; the same call goes on where the last one ended, however it ended."""

from __future__ import annotations

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

from agggen.config import config_hash, resolved
from agggen.errors import AggGenError, ConfigError
from agggen_platform.job_config import JobConfig, result_of
from agggen_platform.ray_cluster import connected
from agggen_platform.registry import Version, register
from agggen_platform.registry.client import registry_uri
from agggen_platform.registry.registration import takes
from agggen_platform.storage.claim import claim, heartbeat
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.sweep.config import SweepConfig, SweepError
from agggen_platform.sweep.report import columns, description, figures, rows, table
from agggen_platform.sweep.space import Space, as_overrides, check_space, extremes, largest, parse_space, trial_config
from agggen_platform.sweep.study import Epochs, Study, StudyClaim, open_study
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.origin import command_line, masked
from agggen_platform.tracking.stored import stored_log
from agggen_platform.training.job import data_of

_log = logging.getLogger(__name__)
_INPUTS = ("corpus.", "facts.", "training.start")  # keys of a space that name data


class Terminated(KeyboardInterrupt):
    """SIGTERM came: ends the sweep as Ctrl-C does."""


@dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    ended: int
    total: int
    trial: FrozenTrial
    """The one that has just ended."""
    best: FrozenTrial | None


@dataclass(frozen=True)
class SweepReport:
    """What a sweep found."""

    name: str
    columns: list[str]
    rows: list[list[object]]
    best: FrozenTrial
    bundle: str
    """The address of the best trial's bundle."""
    version: Version | None
    """Of the model that it is registered as."""
    refused: AggGenError | None
    """Why it is not registered, although it should be."""
    registry: str
    """The URI where it is registered, or would have been."""
    ran: int
    """Trials that this call ran, or continued."""
    seconds: float
    ui_command: str


def sweep(
    config: JobConfig,
    settings: SweepConfig,
    name: str | None = None,
    *,
    runs_dir: Path = Path("runs"),
    overrides: Sequence[str] = (),
    database: str | None = None,
    model: str | None = "agggen",
    show: Callable[[Progress], None] = lambda progress: None,
    begin: Callable[[str], None] = lambda name: None,
) -> SweepReport:
    """Runs the trials that a sweep still lacks, reports it, and registers its best bundle as the model's candidate.

    Args:
        config: what all trials have in common.
        settings: the budget and the space.
        name: of the sweep and its run; by default it follows from the settings, the configuration, the data and what
            cuts it into facts.
        runs_dir: the sweep's folder and those of its trials lie here.
        overrides: the user's, which `config` has already; none may set a key of the space.
        database: URL of the study; by default it is a journal in the sweep's folder.
        model: to register the best bundle as; None: not at all.
        show: gets the progress after each trial.
        begin: gets the sweep's name, once.

    Raises:
        ConfigError: the space does not fit the configuration, `name` is a sweep of something else, the registry would
            not take the bundle from where it is going to lie, or the cluster's address is one of Ray Client.
        CorpusError: the corpus is not there.
        ClaimedError: this sweep runs already.
        ClusterError: there is no cluster, or it has no room for a trial.
        SweepError: no trial finished.
    """
    started = time.monotonic()
    address = config.cluster.address or os.environ.get("RAY_ADDRESS", "")
    if address.startswith("ray://"):
        raise ConfigError(
            f"a sweep cannot run through Ray Client ({address}): Ray Tune must run on the cluster itself. Submit the "
            "sweep with ray job submit, or start it on a node of the cluster with cluster.address=auto"
        )
    space = parse_space(settings.space)
    check_space(space, config, overrides)
    epochs = Epochs(*(largest(space, config, f"training.{stage}.epochs") for stage in ("baseline", "joint")))
    if not getattr(epochs, settings.stage):
        raise ConfigError(f"no trial can report {settings.metric}: training.{settings.stage}.epochs is 0")
    tracking = config.tracking
    runs_dir = runs_dir.resolve()
    registry = registry_uri(tracking.uri, runs_dir)
    store = config.storage.url or str(runs_dir)
    if model and not takes(registry, store):
        raise ConfigError(
            f"the registry {masked(registry)} would take no bundle from {store}, a folder: set storage.url to "
            "s3://bucket/prefix, or do not register the best bundle (--no-register)"
        )
    identity = _identity(config, settings)
    name = name or f"sweep-{hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]}"
    tracker = Tracker(
        tracking.uri,
        tracking.experiment,
        name,
        {"kind": "sweep"},
        runs_dir=runs_dir,
        patience=tracking.patience_seconds,
    )
    folder = runs_dir / name
    with ExitStack() as stack:
        stack.enter_context(_terminable())
        checks = [stack.enter_context(claim(Folder(str(folder))))]
        if config.storage.url:  # another machine may run this sweep on the same store
            away = Folder(f"{config.storage.url.rstrip('/')}/{name}")
            checks.append(stack.enter_context(claim(away)))
            stack.enter_context(stored_log(folder, away, ("tune",), checks[-1], _log.warning))
        begin(name)
        opened = open_study(folder, name, identity, database)
        if database:  # or on the same study
            checks.append(stack.enter_context(heartbeat(StudyClaim(opened))))
        study = Study(opened, settings, space, epochs)
        ran = study.left
        stack.enter_context(tracker)
        tracker.log_params(_described(settings))
        tracker.set_tags(_hashes(identity))
        if ran:
            _run(study, config, name, runs_dir, tracker, show, checks)
        tracker.log_text(table(study), "trials.csv")
        tracker.set_tags({"mlflow.note.content": description(study)})
        for figure_name, draw in figures(study).items():
            tracker.log_figure(figure_name, draw)
        best = _best(study)
        tracker.log_text("\n".join(as_overrides(best.params)) + "\n", "best-overrides.txt")
        bundle = best.user_attrs["bundle"]
        version = refused = None
        if model:
            tags = {"sweep": name, "trial": str(best.number)}
            try:
                version = register(bundle, model, {settings.metric: best.value or 0.0}, tags, uri=registry)
                tracker.set_tags({"registered": str(version), "bundle": bundle})
            except AggGenError as error:  # what the trials found is worth reporting all the same
                refused = error
    seconds = time.monotonic() - started
    ui_command = tracker.ui_command()
    return SweepReport(
        name, columns(study), rows(study), best, bundle, version, refused, registry, ran, seconds, ui_command
    )


def _run(
    study: Study,
    config: JobConfig,
    name: str,
    runs_dir: Path,
    tracker: Tracker,
    show: Callable[[Progress], None],
    checks: Sequence[Callable[[], None]],
) -> None:
    def ended(number: int) -> None:
        for check in checks:
            with suppress(StorageError):  # without an answer the claim stands
                check()
        best = study.best()
        total = max(study.config.trials, len(study.trials()))
        progress = Progress(total - study.left, total, study.trials()[number], best)
        values = {"trials": float(progress.ended)}
        if best is not None and best.value is not None:
            values |= {"best": best.value, "best_trial": float(best.number)}
        tracker.log_metrics(values, step=progress.ended)
        show(progress)

    # A local cluster without its dashboard never frees what the workers of a trial held whose own process died.
    with connected(config.cluster.address, dashboard=config.cluster.workers > 0), _terminable():
        from agggen_platform.sweep.trials import TrialJob, run_trials  # imports Ray Tune

        run_trials(study, TrialJob(config, name, runs_dir, Path.cwd(), command_line()), ended)


def _best(study: Study) -> FrozenTrial:
    best = study.best()
    if best is not None:
        return best
    failed = study.trials(TrialState.FAIL)
    first = f"; trial {failed[0].number}: {failed[0].user_attrs['reason']}" if failed else ""
    raise SweepError(f"no trial finished, {len(failed)} of {len(study.trials())} failed{first}")


def _identity(config: JobConfig, settings: SweepConfig) -> dict[str, Any]:
    """All that decides the trials of a sweep, by name. Not the budget: a larger one continues it."""
    decides = resolved(settings)
    fingerprints, segmenters = _inputs(config, parse_space(settings.space))
    return {
        "space": decides["space"],
        "metric": settings.metric,
        "seed": settings.seed,
        "early stopping": decides["asha"],
        "configuration": config_hash(result_of(config)),
        "data": fingerprints,
        "segmenter": ", ".join(segmenters),
    }


def _inputs(config: JobConfig, space: Space) -> tuple[dict[str, str], list[str]]:
    """The fingerprints of all data that trials may learn from or begin with, and of all their segmenters."""
    searched = {key: extremes(space[key]) for key in space if key.startswith(_INPUTS)}
    fingerprints: dict[str, str] = {}
    segmenters: set[str] = set()
    for values in product(*searched.values()):
        try:
            asked = trial_config(config, dict(zip(searched, values, strict=True)))
            data = data_of(asked)
        except ConfigError:  # an invalid combination: a trial that has it fails, and says why
            continue
        fingerprints |= data.fingerprints
        if data.start:
            fingerprints[f"start {asked.training.start}"] = data.start.fingerprint
        segmenters.add(data.segmenter)
    return fingerprints, sorted(segmenters)


def _described(settings: SweepConfig) -> dict[str, Any]:
    """Parameters of the sweep's run."""
    described = {"metric": settings.metric, "seed": settings.seed, "asha": json.dumps(resolved(settings)["asha"])}
    return described | {f"space/{key}": json.dumps(values) for key, values in settings.space.items()}


def _hashes(identity: dict[str, Any]) -> dict[str, str]:
    """Tags of the sweep's run: what is a parameter to MLflow's pages is compared and plotted."""
    hashes = {"config_hash": identity["configuration"], "segmenter": identity["segmenter"]}
    return hashes | {f"data/{split}": digest for split, digest in identity["data"].items()}


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM acts as Ctrl-C for the block, and raises `Terminated`. (Connecting to Ray sets a handler that exits.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    came = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        interrupt = signal.getsignal(signal.SIGINT)  # while trials run, Tune's, which ends them in order
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if came:
            raise Terminated from None
        raise
    finally:
        for number, handler in before.items():  # Tune leaves its own
            signal.signal(number, handler)
