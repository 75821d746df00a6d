"""Making the records of a table: both models of each seed trained, each system evaluated once on the test split.

    RUNS/CORPUS-transformer-SEED/, RUNS/CORPUS-agggen-SEED/    trainings, as `agggen train --name` leaves them
    RUNS/CORPUS-.../evaluation/CORPUS-SPLIT-.../               reports, as `agggen evaluate` leaves them
    RUNS/records/TABLE/SYSTEM-SEED.json                        records, each made of a report

Killed anywhere, the same call goes on: a training at its last checkpoint, and a report that is there is not made again.
The test split is read when the model is final, and not before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agggen.bundle import fingerprint
from agggen.corpora.catalogue import list_corpora, load
from agggen.errors import ConfigError, CorpusError
from agggen.evaluation.report import check_target, write_report
from agggen.evaluation.report.texts import Wanted, protocol_of
from agggen.generation.generator import InferenceConfig
from agggen_platform import evaluation
from agggen_platform.config import flatten, load_config, overrides_of
from agggen_platform.job_config import JobConfig
from agggen_platform.reproduction.records import FOLDER, RunRecord, records_of, scores_of, write_record
from agggen_platform.reproduction.tables import MODELS, Model, Recipe, System, Table, check_overrides
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking.origin import masked_command, origin
from agggen_platform.training.job import Finished, train_job
from agggen_platform.training.news import News

_COMMIT = ("mlflow.source.git.commit", "git.dirty")


@dataclass(frozen=True)
class Watch:
    """Who hears how far the work is."""

    say: Callable[[str], None]
    training: Callable[[], AbstractContextManager[Callable[[News], None]]]
    """Shows one training."""
    writing: Callable[[int], Callable[[int], None]]
    """Shows one evaluation of so many records."""


def reproduce(
    table: Table, runs: Path, seeds: Sequence[int], overrides: Sequence[str], fresh: bool, watch: Watch
) -> None:
    """Trains and evaluates what the table lacks of these seeds, and leaves a record of each system.

    Args:
        runs: the folder of runs.
        overrides: settings for all trainings, as for `agggen train`.
        fresh: evaluate again, and replace the records of these seeds. Finished trainings stay.

    Raises:
        ConfigError: a setting that does not exist or that the table decides; a record under RUNS is of another bundle,
            recipe or way of writing.
        CorpusError: a corpus is not there, or is not the one of the published numbers.
        ClaimedError, StoppedError, TrainingError: see `train_job`.
    """
    check_overrides(overrides)
    for model in MODELS:
        load_config(JobConfig, table.recipe.preset, table.recipe.settings(model, 1, overrides))
    if table.corpus in {corpus.name for corpus in list_corpora()}:
        load(table.corpus, table.split)  # says now what is missing; nothing is read
    for seed in seeds:
        _Seed(table, runs, seed, tuple(overrides), watch).complete(fresh)


def inference_of(recipe: Recipe, system: System, overrides: Sequence[str] = ()) -> InferenceConfig:
    """How the system writes: the settings of its bundle, which are the recipe's, and its own."""
    trained = load_config(JobConfig, recipe.preset, recipe.settings(system.model, 1, overrides))
    return load_config(InferenceConfig, None, [*overrides_of(trained.inference), *system.inference])


class _Seed:
    """One seed's part of a table."""

    def __init__(self, table: Table, runs: Path, seed: int, overrides: tuple[str, ...], watch: Watch) -> None:
        self.table, self.recipe, self.runs = table, table.recipe, runs
        self.seed, self.overrides, self.watch = seed, overrides, watch
        self.trained: dict[Model, Finished] = {}

    def complete(self, fresh: bool) -> None:
        """Makes the records that are missing, or all."""
        there = {} if fresh else {record.system: record for record in self.on_record()}
        for record in there.values():
            self.check(record)
        missing = [system for system in self.table.systems if system.key not in there]
        if not missing:
            self.watch.say(f"{self.table.name}, seed {self.seed}: all {len(there)} systems are on record")
            return
        self.warn_of_missing_metrics()
        for model in dict.fromkeys(system.model for system in missing):
            self.train(model)
        for record in there.values():
            self.check(record)  # beside what was trained now
        for system in missing:
            self.evaluate(system, fresh)

    def on_record(self) -> list[RunRecord]:
        return [record for record in records_of(self.table, self.runs) if record.seed == self.seed]

    # --- what a record must agree with -------------------------------------------------------------------------------

    def check(self, record: RunRecord) -> None:
        """Raises ConfigError: the record is not of what would be evaluated now."""
        system = self.table.system(record.system)
        assert system is not None
        bundle = self.bundle_there(system.model)
        if bundle and (there := fingerprint(bundle)) != record.bundle:
            self.refuse(record, f"bundle {record.bundle[:12]}, and {bundle} is {there[:12]}")
        if record.recipe != (asked := self.recipe.decisive(self.overrides)):
            self.refuse(record, f"a model trained by {' '.join(record.recipe)}, and {' '.join(asked)} is asked for")
        then, now = record.writing, flatten(inference_of(self.recipe, system, self.overrides))
        if differing := [f"{key}={then.get(key)}, not {value}" for key, value in now.items() if then.get(key) != value]:
            self.refuse(record, f"texts written with {', '.join(differing)} as {system.name} is asked for")

    def refuse(self, record: RunRecord, why: str) -> None:
        file = self.runs / FOLDER / record.file
        raise ConfigError(
            f"{file} is the record of {why}. Evaluate the test split anew and replace the records of this seed with "
            "--fresh, or give another --runs"
        )

    def bundle_there(self, model: Model) -> Path | None:
        """The bundle on this machine, if it is trained."""
        if model in self.trained:
            return self.trained[model].path
        path = self.runs / self.recipe.run_name(model, self.seed) / "bundle"
        return path if (path / "manifest.json").is_file() else None

    # --- training ----------------------------------------------------------------------------------------------------

    def train(self, model: Model) -> Finished:
        """The model's run: trained, continued or found."""
        if model in self.trained:
            return self.trained[model]
        name = self.recipe.run_name(model, self.seed)
        start = json.dumps(self.train("transformer").address) if model == "agggen" else ""
        settings = self.recipe.settings(model, self.seed, self.overrides, start)
        config = load_config(JobConfig, self.recipe.preset, settings)
        self.watch.say(f"Run {name}")
        with self.watch.training() as show:
            done = train_job(config, name, runs_dir=self.runs, show=show, say=self.watch.say)
        self.watch.say(
            f"Trained in {done.seconds / 60:.1f} minutes" if done.trained else "This run is finished already"
        )
        self.trained[model] = done
        return done

    # --- evaluation --------------------------------------------------------------------------------------------------

    def warn_of_missing_metrics(self) -> None:
        """Says beforehand which metric this machine cannot compute, for the test split is written about once."""
        for column in self.table.columns:
            if column.name in ("meteor", "rouge_l", "cider"):
                try:
                    Wanted(protocol_of(self.table.corpus), (column.name,))
                except ConfigError as error:
                    self.watch.say(f"warning: {column.name} will be missing from the table: {error}")

    def evaluate(self, system: System, fresh: bool) -> None:
        """Writes about the test split, unless a report says how that went, and makes a record of the report."""
        model = self.trained[system.model]
        folder = self.runs / model.run_name
        table = self.table
        task = evaluation.task_of(str(model.path), model.path, table.corpus, table.split, system.inference)
        if table.inputs not in (None, len(task.records)):
            raise CorpusError(
                f"{table.corpus} {table.split} has {len(task.records):,} records here, and the published numbers of "
                f"table {table.name} are of {table.inputs:,}: this is another test set"
            )
        self.watch.say(f"{system.name}, seed {self.seed}: {len(task.records):,} records of {task.corpus} {task.split}")
        report = folder / "evaluation" / task.name
        with claim(Folder(str(folder))):
            found = None if fresh else _report_in(report, task.identity)
            if found is None:
                check_target(report, task.identity)
                made = evaluation.evaluate(task, self.watch.writing(len(task.records)), self.watch.say)
                write_report(report, made)
                evaluation.log_report(task, made, report, self.runs, self.watch.say)
                found = _report_in(report, task.identity)
                assert found is not None
            path = write_record(self.runs, self.record(system, task, found))
        self.watch.say(f"Record: {path}")

    def record(self, system: System, task: evaluation.Task, report: Mapping[str, Any]) -> RunRecord:
        """The record that a report makes."""
        run, identity = report["run"], report["identity"]
        before = self.trained["transformer"].bundle.metrics if system.model == "agggen" else {}
        commit = {name.rpartition(".")[2]: value for name, value in origin().items() if name in _COMMIT}
        return RunRecord(
            self.table.name,
            system.key,
            self.seed,
            tuple(self.commands(system)),
            self.recipe.decisive(self.overrides),
            identity["corpus"],
            identity["split"],
            run["records"],
            identity["records"],
            identity["protocol"],
            identity["bundle"],
            dict(task.bundle.sources),
            run["training configuration (hash)"],
            identity["inference"],
            flatten(task.config),
            {**before, **task.bundle.metrics},
            {name: run[name] for name in evaluation.machine() if name in run} | commit,
            run["finished"],
            scores_of(report),
        )

    def commands(self, system: System) -> list[str]:
        """What a user types to get the record: at once, and step by step."""
        table, recipe = self.table, self.recipe
        lines = [["agggen", "reproduce", table.name, "--runs", "DIR", "--seeds", str(self.seed), *self.overrides]]
        for model in MODELS[: MODELS.index(system.model) + 1]:
            start = f"DIR/{recipe.run_name('transformer', self.seed)}/bundle"
            settings = recipe.settings(model, self.seed, self.overrides, start)
            name = recipe.run_name(model, self.seed)
            lines.append(["agggen", "train", recipe.preset, *settings, "--name", name, "--runs", "DIR"])
        bundle = f"DIR/{recipe.run_name(system.model, self.seed)}/bundle"
        test = ["--corpus", table.corpus, "--split", table.split]
        lines.append(["agggen", "evaluate", bundle, *test, *system.inference])
        return [masked_command(line) for line in lines]


def _report_in(folder: Path, identity: Mapping[str, str | int]) -> dict[str, Any] | None:
    """The JSON of the report of that evaluation, if it is there."""
    try:
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return found if found["identity"] == dict(identity) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
