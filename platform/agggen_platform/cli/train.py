"""`agggen train`, `adapt`, `distill`, `sweep`: train a model, continue its training, search the best settings."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from agggen.errors import ConfigError
from agggen_platform.cli import console, own_data
from agggen_platform.cli.options import Fresh, Overrides, PrintConfig, Runs, warn_if_temporary
from agggen_platform.cli.shards import Actors, records_per_second, shard_progress

if TYPE_CHECKING:
    from agggen.training.data import Data
    from agggen_platform.job_config import JobConfig
    from agggen_platform.sweep.job import Progress, SweepReport


@own_data.with_column_options()
def train(
    source: Annotated[str, Argument(metavar="PRESET|DATA", help="A preset (name, YAML) or data (file, folder).")],
    overrides: Overrides = None,
    runs: Runs = Path("runs"),
    name: Annotated[str | None, Option(help="The run's name. [default: PRESET-HASH of configuration and data]")] = None,
    print_config: PrintConfig = False,
    fresh: Fresh = False,
    preset: Annotated[str | None, Option(help="The preset for DATA (file, folder, corpus). [default: by size]")] = None,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    division_seed: own_data.DivisionSeed = 1,
) -> None:
    """Train a model with a preset and write a bundle.

    Trains the plain Transformer, then the joint model. Ctrl-C and SIGTERM save a checkpoint, and the same command
    resumes the run. With cluster.workers, the workers of a Ray cluster divide each batch; the model is the same as with
    one worker.

    \b
        agggen train elements
        agggen train films.csv --subject title --text plot
        agggen train webnlg-quick training.seed=2 model.predicate_dim=64
        agggen train webnlg cluster.workers=4 cluster.gpus_per_worker=1 storage.url=s3://models/runs
    """
    from agggen.config import config_hash, load_config, resolved
    from agggen.training.choice import AUTO, config_for
    from agggen.training.data import training_dataset
    from agggen_platform.job_config import JobConfig, run_config_of
    from agggen_platform.training.job import data_of

    dataset = None
    if preset is not None or _is_data(source):
        dataset = training_dataset(source, seed=division_seed, **columns)
        config = config_for(JobConfig, dataset, preset or AUTO, overrides or ())
    elif any(columns.values()):
        raise ConfigError(f"options that name columns need data, and {source} is read as a preset; give --preset")
    else:
        config = load_config(JobConfig, source, overrides or ())
    if print_config:
        console.echo(json.dumps(resolved(config), indent=2))
        console.note(config_hash(run_config_of(config)))
        return
    _run_training(config, data_of(config, dataset), source, name, runs, fresh)


@own_data.with_column_options()
def adapt(
    bundle: Annotated[str, Argument(metavar="BUNDLE", help="The model: a folder, s3://..., or models:/NAME@ALIAS.")],
    source: Annotated[str, Argument(metavar="DATA", help="A file, a folder, or a corpus of the catalogue.")],
    overrides: Overrides = None,
    replay: Annotated[
        str | None,
        Option(metavar="CORPUS", help="The corpus to replay. [default: BUNDLE's, if it is on this machine]"),
    ] = None,
    runs: Runs = Path("runs"),
    name: Annotated[str | None, Option(help="The run's name. [default: adapt-DATA-HASH]")] = None,
    fresh: Fresh = False,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    division_seed: own_data.DivisionSeed = 1,
) -> None:
    """Continue training a model on new data.

    Writes a new bundle with additional words and predicates, and the same sizes and inference settings. Texts of the
    old corpus are replayed, so that the model forgets less: in each epoch different texts, as many as new ones and at
    least 200. training.replay=0.2 makes them a fifth of an epoch's texts; 0 turns replay off. The same command resumes
    an interrupted run.

    \b
        agggen adapt runs/elements-1f2e/bundle films.csv
        agggen adapt models:/agggen@champion films.csv --text plot --replay webnlg
        agggen adapt runs/elements-1f2e/bundle films training.joint.epochs=12
    """
    from agggen.training.adaptation import adaptation
    from agggen.training.data import training_dataset
    from agggen_platform.job_config import JobConfig

    data = training_dataset(source, seed=division_seed, **columns)
    config, records = adaptation(JobConfig, bundle, data, replay, overrides or (), note=console.note)
    _run_training(config, records, f"adapt-{Path(source).stem}", name, runs, fresh)


@own_data.with_column_options()
def distill(
    bundle: Annotated[str, Argument(metavar="BUNDLE", help="The first teacher, whose weights initialise the student.")],
    source: Annotated[str, Argument(metavar="DATA", help="A corpus of the catalogue, a folder or a file.")],
    overrides: Overrides = None,
    teacher: Annotated[list[str] | None, Option(metavar="BUNDLE", help="Another teacher; can be repeated.")] = None,
    subsets: Annotated[int, Option(min=0, help="Number of subsets of records that get texts, too.")] = 5000,
    actors: Actors = None,
    runs: Runs = Path("runs"),
    name: Annotated[str | None, Option(help="The run's name. [default: distill-DATA-HASH]")] = None,
    fresh: Fresh = False,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    division_seed: own_data.DivisionSeed = 1,
) -> None:
    """Train a model (student) on texts of trained models (teachers).

    The student needs fewer plans, and fewer of its texts have faults. The teachers write texts for the records of DATA
    and for connected subsets of their triples. Of each record's texts that the constrained search accepts, the one most
    similar to the others is kept, in RUNS/texts-HASH. The student continues BUNDLE's training on these texts. Texts of
    DATA are not used; DATA without texts needs the splits train and dev. The same command resumes an interrupted run.

    \b
        agggen distill runs/a/bundle webnlg --teacher runs/b/bundle --teacher runs/c/bundle
        agggen adjust runs/distill-webnlg-1f2e/bundle -o student plans=3 beam.beam=3
    """
    from agggen.bundle import load_bundle
    from agggen.training.adaptation import adaptation, configuration
    from agggen.training.data import bundle_folder, training_dataset
    from agggen_platform.bulk.model import open_model
    from agggen_platform.distillation import Distillation
    from agggen_platform.extras import require
    from agggen_platform.job_config import JobConfig

    student = load_bundle(bundle_folder(bundle))
    configuration(JobConfig, bundle, student, "distill", overrides or ())  # raises errors before texts are written
    if actors != 0:
        require("ray")
    models = [open_model(address) for address in (bundle, *(teacher or ()))]
    distillation = Distillation(models, training_dataset(source, seed=division_seed, **columns), subsets)
    with shard_progress(records_per_second, lambda progress: "") as print_progress:
        texts = distillation.write(runs / distillation.name, actors, print_progress, console.note)
    config, records = adaptation(JobConfig, bundle, texts, None, overrides or (), note=console.note, preset="distill")
    _run_training(config, records, f"distill-{Path(source).stem}", name, runs, fresh)


def _run_training(config: JobConfig, data: Data, label: str, name: str | None, runs: Path, fresh: bool) -> None:
    """Trains, prints progress and the bundle's address. The default `name` of the run is ``LABEL-HASH``."""
    from agggen.training.progress import ProgressLines
    from agggen_platform.training.job import default_name, train_job

    if not config.storage.url:
        warn_if_temporary(runs, "storage.url or --runs")
    name = name or default_name(label, config, data)
    console.note(f"Run {name}")
    progress = ProgressLines(console.note)
    run = train_job(config, name, runs_dir=runs, fresh=fresh, show=progress, report=console.note, data=data)
    if run.trained:
        compare_note = f"; compare runs: {run.ui_command}" if run.ui_command else ""
        console.note(f"Trained in {run.seconds / 60:.1f} minutes{compare_note}")
    else:
        console.note("This run is finished; --fresh trains it again")
    console.echo(run.address)


def _is_data(source: str) -> bool:
    """Whether `source` is data (file, folder or pattern) and not a preset."""
    from agggen.config import preset_names
    from agggen.datasets import SUFFIXES

    if source in preset_names():
        return False
    path = Path(source)
    if path.suffix.lower() == ".json" and path.is_file():
        return _has_rows(path)
    return "{" in source or "://" in source or path.is_dir() or path.suffix.lower() in set(SUFFIXES) - {".json"}


def _has_rows(path: Path) -> bool:
    """Whether a JSON file is a list, or an object of lists (one per split), which a preset never is."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError:
        return False
    lists = list(value.values()) if isinstance(value, dict) else [value]
    return bool(lists) and all(isinstance(rows, list) for rows in lists)


def sweep(
    preset: Annotated[str, Argument(metavar="PRESET", help="A preset's name, or the path of a YAML file.")],
    overrides: Overrides = None,
    space: Annotated[
        str, Option(metavar="SPACE", help="A space's name (predicate-sizes, rates), or a YAML file.")
    ] = "predicate-sizes",
    runs: Runs = Path("runs"),
    name: Annotated[str | None, Option(help="The sweep's name. [default: sweep-HASH]")] = None,
    trials: Annotated[int | None, Option(help="Total number of trials. [default: the space's]")] = None,
    concurrent: Annotated[int | None, Option(help="Concurrent trials; 0: all that fit. [default: the space's]")] = None,
    model: Annotated[str, Option(help="Register the best bundle as a version of this model.")] = "agggen",
    no_register: Annotated[bool, Option("--no-register", help="Do not register the best bundle.")] = False,
) -> None:
    """Search the best settings by many trainings (trials).

    Weak trials are stopped early, and the best bundle is registered with the alias candidate. The same command resumes
    an interrupted sweep, and its running trials from their checkpoints; with a larger --trials it extends a finished
    sweep.

    \b
        agggen sweep elements --space predicate-sizes
        agggen sweep webnlg-quick corpus.limit=2000 --space my-space.yaml --trials 40 --concurrent 4
    """
    from agggen.config import load_config
    from agggen_platform.job_config import JobConfig
    from agggen_platform.sweep.config import SPACES, SweepConfig
    from agggen_platform.sweep.job import Terminated
    from agggen_platform.sweep.job import sweep as run_sweep

    options = {"trials": trials, "concurrent": concurrent}
    space_overrides = [f"{key}={value}" for key, value in options.items() if value is not None]
    settings = load_config(SweepConfig, space, space_overrides, SPACES)
    config = load_config(JobConfig, preset, overrides or ())
    warn_if_temporary(runs, "--runs")
    try:
        report = run_sweep(
            config,
            settings,
            name,
            runs_dir=runs,
            overrides=overrides or (),
            model=None if no_register else model,
            show=_note_trial,
            on_name=lambda sweep_name: console.note(f"Sweep {sweep_name}"),
        )
    except KeyboardInterrupt as interrupt:
        console.note("Interrupted; the same command resumes with the remaining trials")
        if isinstance(interrupt, Terminated):
            sys.exit(143)
        raise
    console.print_table(report.columns, report.rows)
    if report.trials_run:
        console.note(f"{report.trials_run} trials in {report.seconds / 60:.1f} minutes")
    else:
        console.note("This sweep is finished; a larger --trials extends it")
    console.note(f"Compare trials: {report.ui_command}")
    console.echo(report.bundle)
    if report.version or report.refusal:
        _note_registered(report, model)


def _note_registered(report: SweepReport, model: str) -> None:
    """Prints the version of the best bundle; if it was not registered, raises the registry's error."""
    from agggen_platform.registry.address import CANDIDATE
    from agggen_platform.registry.store import registry_uri
    from agggen_platform.tracking.origin import masked

    registry_option = "" if report.registry == registry_uri() else f" --registry {shlex.quote(masked(report.registry))}"
    trial = f"Trial {report.best.number}"
    if report.refusal:
        command = f"agggen models register {shlex.quote(report.bundle)} --name {model}{registry_option}"
        console.note(f"{trial} is not registered; to retry: {command} (--to s3://... first copies it to a store)")
        raise report.refusal
    assert report.version is not None
    state = "registered as" if report.version.new else "already"
    alias = ", alias candidate" if CANDIDATE in report.version.aliases else ""
    command = f"agggen models show {report.version}{registry_option}"
    console.note(f"{trial} is {state} {report.version}{alias}; see: {command}")


def _note_trial(progress: Progress) -> None:
    trial, best = progress.trial, progress.best
    if reason := trial.user_attrs.get("reason"):
        result = f"failed: {reason}"
    elif trial.state.name == "PRUNED":
        result = f"stopped after {max(trial.intermediate_values, default=0)} epochs"
    else:
        result = f"{trial.value:.4f}"
    best_note = f"  (best {best.value:.4f}, trial {best.number})" if best else ""
    console.note(f"{progress.ended} of {progress.total}  trial {trial.number}: {result}{best_note}")
