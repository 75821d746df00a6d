"""Creates the records of a table: trains the models of each seed, and evaluates each system once on the test split.

    RUNS/CORPUS-transformer-SEED/, RUNS/CORPUS-agggen-SEED/    runs of `agggen train --name`
    RUNS/texts-HASH/, RUNS/CORPUS-student-SEED/                texts of the teachers and the run of `agggen distill`
    RUNS/CORPUS-agggen-SEED/bundle-PHRASES/                    the same model with sentences for unknown predicates
    RUNS/CORPUS-.../evaluation/CORPUS-SPLIT-.../               reports of `agggen evaluate`
    RUNS/records/TABLE/SYSTEM-SEED.json                        records, one per report

After an interruption, the same call resumes. The test split is read only after all models of the seed are trained.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from agggen.bundle import fingerprint, load_bundle, save_bundle
from agggen.config import as_overrides, flatten, load_config, overrides_of, resolved
from agggen.corpora.catalogue import list_corpora, load
from agggen.errors import ConfigError, CorpusError
from agggen.generation.generator import InferenceConfig
from agggen.report.folder import check_target, to_json, write_report
from agggen.training.adaptation import adaptation
from agggen.training.data import Data, training_dataset
from agggen.training.progress import ProgressLines, progress_printer
from agggen_platform import evaluation
from agggen_platform.adjusting import adjusted_bundle
from agggen_platform.bulk.model import open_model
from agggen_platform.distillation import Distillation
from agggen_platform.job_config import JobConfig
from agggen_platform.reproduction.records import FOLDER, RunRecord, Score, records_of, write_record
from agggen_platform.reproduction.tables import MODELS, SUBSETS, TEACHERS, Model, Recipe, System, Table, check_overrides
from agggen_platform.storage.claim import claim
from agggen_platform.storage.folder import Folder
from agggen_platform.training.job import TrainedRun, train_job


def reproduce(
    table: Table, runs: Path, seeds: Sequence[int], overrides: Sequence[str], fresh: bool, say: Callable[[str], None]
) -> None:
    """Trains and evaluates the systems that have no record for these seeds, and writes their records.

    `overrides` apply to all trainings. `fresh`: evaluate again and replace the records; finished trainings are kept.

    Raises ConfigError for settings that the table sets itself, or an existing record of another bundle, recipe or
    inference setting; CorpusError if a corpus is missing or has another size than that of the published scores.
    """
    check_overrides(overrides)
    for model in MODELS:
        load_config(JobConfig, table.recipe.preset, table.recipe.settings(model, 1, overrides))
    catalogue = {corpus.name for corpus in list_corpora()}
    needed_splits = {(system.phrases, "train") for system in table.systems if system.phrases}
    needed_splits.add((table.corpus, table.split))
    for corpus, split in sorted(needed_splits):
        if corpus in catalogue:
            load(corpus, split)  # raises CorpusError if the corpus is missing; records are read lazily
    for seed in seeds:
        _SeedRun(table, runs, seed, tuple(overrides), say).complete(fresh)


def inference_of(recipe: Recipe, system: System, overrides: Sequence[str] = ()) -> InferenceConfig:
    """The inference settings of a system: those of the recipe with the system's overrides."""
    config = load_config(JobConfig, recipe.preset, recipe.settings("agggen", 1, overrides))
    return load_config(InferenceConfig, None, [*overrides_of(config.inference), *system.inference])


class _SeedRun:
    """The trainings and evaluations of a table with one seed."""

    def __init__(
        self, table: Table, runs: Path, seed: int, overrides: tuple[str, ...], say: Callable[[str], None]
    ) -> None:
        self.table, self.recipe, self.runs = table, table.recipe, runs
        self.seed, self.overrides, self.say = seed, overrides, say
        self.runs_by_model: dict[Model, TrainedRun] = {}

    def complete(self, fresh: bool) -> None:
        existing = [] if fresh else [record for record in records_of(self.table, self.runs) if record.seed == self.seed]
        self.check(existing)
        missing = [system for system in self.table.systems if system.key not in {record.system for record in existing}]
        if not missing:
            self.say(f"{self.table.name}, seed {self.seed}: all {len(existing)} records exist")
            return
        for model in dict.fromkeys(system.model for system in missing):
            self.train(model)
        self.check(existing)  # again, because now the bundles exist
        for system in missing:
            self.evaluate(system, fresh)

    def check(self, records: Sequence[RunRecord]) -> None:
        """Raises ConfigError if a record's bundle, recipe or inference settings are not the current ones."""
        for record in records:
            system = next(system for system in self.table.systems if system.key == record.system)
            bundle = self.bundle_of(system)
            settings = self.table.score_settings(flatten(inference_of(self.recipe, system, self.overrides)))
            recorded_values: dict[str, object] = {"recipe": record.recipe, **record.inference(self.table)}
            current_values: dict[str, object] = {"recipe": self.recipe.result_settings(self.overrides), **settings}
            if (bundle / "manifest.json").is_file():
                recorded_values["bundle"], current_values["bundle"] = record.bundle, fingerprint(bundle)
            differences = [
                f"{name} is {recorded_values.get(name)!r} in the record and {current_values.get(name)!r} now"
                for name in {**current_values, **recorded_values}
                if recorded_values.get(name) != current_values.get(name)
            ]
            if differences:
                raise ConfigError(
                    f"{self.runs / FOLDER / self.table.name / record.name}.json does not match {system.name}: "
                    f"{'; '.join(differences)}. Use --fresh to evaluate the test split again and replace the records "
                    "of this seed, or use another --runs"
                )

    def train(self, model: Model) -> TrainedRun:
        """Trains the model, unless its run is finished."""
        if model in self.runs_by_model:
            return self.runs_by_model[model]
        name = self.recipe.run_name(model, self.seed)
        config, data = self.prepare_student() if model == "student" else (self.config_of(model, name), None)
        self.say(f"Run {name}")
        run = train_job(config, name, runs_dir=self.runs, show=ProgressLines(self.say), report=self.say, data=data)
        self.say(f"Trained in {run.seconds / 60:.1f} minutes" if run.trained else "This run is finished")
        self.runs_by_model[model] = run
        return run

    def config_of(self, model: Model, name: str) -> JobConfig:
        """The configuration of the run `name`, which trains a Transformer or AggGen model."""
        start = json.dumps(self.train("transformer").address) if model == "agggen" else ""
        settings = self.recipe.settings(model, self.seed, self.overrides, start)
        bundle = self.runs / name / "bundle"
        if (bundle / "manifest.json").is_file():  # keeps the name of a finished run; systems set their own inference
            settings += as_overrides({"inference": resolved(load_bundle(bundle).inference)})
        return load_config(JobConfig, self.recipe.preset, settings)

    def prepare_student(self) -> tuple[JobConfig, Data]:
        """Trains the teachers and generates their texts; returns the student's configuration and data."""
        start = str(self.train("agggen").path)
        runs = [_SeedRun(self.table, self.runs, seed, self.overrides, self.say) for seed in TEACHERS]
        teachers = [open_model(str(run.train("agggen").path)) for run in runs]
        distillation = Distillation(teachers, training_dataset(self.recipe.corpus), SUBSETS)
        actors = load_config(JobConfig, self.recipe.preset, [*self.recipe.overrides, *self.overrides]).cluster.workers
        texts = distillation.write(self.runs / distillation.name, actors, say=self.say)
        overrides = [*self.overrides, f"training.seed={self.seed}"]
        return adaptation(JobConfig, start, texts, None, overrides, note=self.say, preset="distill")

    def bundle_of(self, system: System) -> Path:
        """The folder of the system's bundle, which may not exist yet."""
        folder = self.runs / self.recipe.run_name(system.model, self.seed)
        if system.phrases:
            return folder / f"bundle-{Path(system.phrases).name}"
        return self.runs_by_model[system.model].path if system.model in self.runs_by_model else folder / "bundle"

    def evaluate(self, system: System, fresh: bool) -> None:
        """Writes the system's record; evaluates it on the test split unless its report exists."""
        folder = self.runs / self.runs_by_model[system.model].run_name
        with claim(Folder(str(folder))):
            bundle = self.bundle_of(system)
            if system.phrases and (fresh or not bundle.exists()):
                rmtree(bundle, ignore_errors=True)
                save_bundle(bundle, adjusted_bundle(self.runs_by_model[system.model].path, phrases=system.phrases))
            table = self.table
            inference = overrides_of(inference_of(self.recipe, system, self.overrides))
            task = evaluation.task_of(str(bundle), bundle, table.corpus, table.split, inference)
            if table.inputs not in (None, len(task.records)):
                raise CorpusError(
                    f"{table.corpus} {table.split} has {len(task.records):,} records, but the published scores of "
                    f"table {table.name} are for {table.inputs:,}: the test sets differ"
                )
            self.say(f"{system.name}, seed {self.seed}: {len(task.records):,} records of {task.corpus} {task.split}")
            path = folder / "evaluation" / task.name
            report = None if fresh else _read_report(path, task.identity)
            if report is None:
                check_target(path, task.identity)
                evaluated = evaluation.evaluate(task, progress_printer(len(task.records), self.say), self.say)
                write_report(path, evaluated)
                evaluation.log_report(task, evaluated, path, self.runs, self.say)
                report = to_json(evaluated)
            record = self.record_of(system, flatten(task.config), report)
            self.say(f"Record: {write_record(self.runs, table, record)}")

    def record_of(self, system: System, settings: Mapping[str, Any], report: Mapping[str, Any]) -> RunRecord:
        identity = report["identity"]
        table_scores = {name for system_row in self.table.system_rows for name in system_row.scores.values()}
        scores = {}
        for key, section in report["scores"].items():
            for measure in section["measures"]:
                if (name := f"{key}/{measure['name']}") in table_scores:
                    reason = measure.get("not_computed", "")
                    interval, signature = measure.get("interval_95"), measure.get("signature", "")
                    scores[name] = Score(measure["value"], interval and (interval[0], interval[1]), signature, reason)
        recipe, n_records = self.recipe.result_settings(self.overrides), report["run"]["records"]
        evaluated = (identity["records"], n_records, identity["protocol"], identity["bundle"])
        return RunRecord(system.key, self.seed, recipe, *evaluated, self.table.score_settings(settings), scores)


def _read_report(folder: Path, identity: Mapping[str, str | int]) -> dict[str, Any] | None:
    """The report in `folder` if it is of the evaluation `identity`, else None."""
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return report if report["identity"] == dict(identity) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
