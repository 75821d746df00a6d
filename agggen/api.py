"""Models: training, loading, planning, generation, checks, alignment and scores."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agggen.bundle import Bundle, load_bundle, save_bundle
from agggen.checks import check
from agggen.config import as_overrides, flatten, load_config, overrides_of
from agggen.corpora.rejects import write_rejects
from agggen.corpora.tables import read_table
from agggen.datasets import Dataset, load_dataset, load_records
from agggen.display import Results
from agggen.errors import AggGenError, BundleError, RecordError, StoppedError
from agggen.evaluation import Score
from agggen.generation.generator import Generator, InferenceConfig
from agggen.generation.results import AlignedText, PlannedRecord
from agggen.records import Plan, Record
from agggen.run import RunConfig, bundle_of, fit, prepare
from agggen.training.adaptation import adaptation
from agggen.training.callbacks import Callback
from agggen.training.checkpoints import FileCheckpointer
from agggen.training.choice import AUTO, config_for
from agggen.training.data import Data, bundle_folder, check_unchanged, training_data, training_dataset
from agggen.training.events import EventReporter, TrainingEvent
from agggen.training.progress import ProgressLines, print_to_stderr, progress_printer
from agggen.training.stopping import StopRequest
from agggen.verification.results import check_paired

if TYPE_CHECKING:
    from agggen.report import Report


class Model:
    """A trained model; not thread-safe.

    Each method takes a record and returns a result, or takes several records (a list, DataFrame, Arrow table or file)
    and returns `Results` in their order. Keyword arguments of `plan` and `generate` override the bundle's `settings`.
    """

    def __init__(self, bundle: Bundle, path: Path, device: str = "cpu") -> None:
        self.bundle, self.path = bundle, path
        self.generator: Generator = bundle.generator(device)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates of the training records."""
        return self.bundle.encoder.predicates[1:]

    def settings(self, overrides: Sequence[str] = (), **settings: Any) -> InferenceConfig:
        """The bundle's inference settings with changes: ``level=2``, ``verify="off"``, ``beam={"beam": 3}``."""
        all_overrides = [*overrides_of(self.bundle.inference), *overrides, *as_overrides(settings)]
        return load_config(InferenceConfig, None, all_overrides)

    def plan(self, records: Any, k: int = 5, **settings: Any) -> Any:
        """The `k` most probable plans of each record, best first (`Results` of `PlannedRecord`).

        With ``planner="sample"``, `k` plans are sampled from p(plan | record) instead. Raises PlanError or RecordError
        if a record cannot be planned.
        """
        all_records, is_single = _record_list(records)
        plans = self.generator.planner.plan(all_records, k, self.settings(**settings))
        planned: list[Results[PlannedRecord]] = list(map(Results, plans))
        return planned[0] if is_single else Results(planned)

    def generate(
        self, records: Any, plan: Any = None, *, n_best: int = 1, complete: bool = False, **settings: Any
    ) -> Any:
        """A text for each record (`Generation`: ``text``, ``plan``, ``facts``, ``faults``, ...).

        Args:
            plan: a plan such as ``"[food] [near area]"``, which every text follows exactly; or a list with a plan or
                None per record. [default: the model chooses]
            n_best: number of texts per record; if more than 1, each result is `Results` of these texts, best first.
            complete: whether the model adds the predicates that `plan` lacks.

        Raises PlanError if a plan does not fit its record, RecordError if a record has too many triples.
        """
        all_records, is_single = _record_list(records)
        plans = [plan] * len(all_records) if plan is None or isinstance(plan, str | Plan) else list(plan)
        if len(plans) != len(all_records):
            raise AggGenError(f"{len(all_records)} records but {len(plans)} plans; pass one plan, or one per record")
        human_plans = [Plan.parse(entry) if isinstance(entry, str) else entry for entry in plans]
        generated = self.generator.generate(all_records, human_plans, complete, n_best, self.settings(**settings))
        results: list[Any] = [texts[0] if n_best == 1 else Results(texts) for texts in generated]
        return results[0] if is_single else Results(results)

    def check(self, records: Any, text: Any) -> Any:
        """Checks each text against its record (`agggen.check`), with the lexicon learned from the training texts."""
        return check(records, text, checker=self.generator.checker)

    def align(self, records: Any, text: Any, run_archives: bool = False) -> Any:
        """The Viterbi alignment of triples to the facts of each text (`AlignedText`; paper section 5.3).

        For `run_archives`, see `Bundle.fact_segmenter`.
        """
        all_records, is_single = _record_list(records)
        texts = [text] if isinstance(text, str) else list(text)
        check_paired(all_records, texts)
        facts = self.bundle.fact_segmenter(run_archives).segment(texts)
        aligned: list[AlignedText] = self.generator.align(all_records, facts)
        return aligned[0] if is_single else Results(aligned)

    def save(self, folder: Path | str) -> None:
        """Writes the bundle to the new folder `folder`; raises BundleError if it exists."""
        save_bundle(folder, self.bundle)

    def __repr__(self) -> str:
        n_parameters = sum(parameter.numel() for parameter in self.bundle.model.parameters())
        return f"agggen.Model({str(self.path)!r}: {n_parameters:,} parameters, {len(self.predicates):,} predicates)"


def _record_list(records: Any) -> tuple[list[Record], bool]:
    """`records` as a list, and whether it is a single record; raises RecordError if a single record is invalid."""
    if isinstance(records, Record):
        return [records], True
    if not isinstance(records, Mapping):
        return load_records(records), False
    table = read_table([(1, records)], "the record")
    if table.rejects:
        raise RecordError(table.rejects[0].reason)
    return list(chain(*table.records.values())), True


def load_model(address: Path | str, device: str = "cpu") -> Model:
    """Loads a model.

    Args:
        address: the folder of a bundle or a run, ``elements`` (the shipped bundle), ``s3://...``, or a model of the
            registry, ``models:/NAME@ALIAS``.
        device: ``cpu``, ``cuda``, ``cuda:1``, ...; ``auto`` is a GPU if available.

    Raises BundleError if the bundle is missing or was modified.
    """
    path = bundle_folder(address)
    return Model(load_bundle(path), path, device)


def train(
    data: Any,
    preset: str = AUTO,
    output: Path | str = "runs/model",
    *,
    callbacks: Iterable[Callback] = (),
    progress: bool | Callable[[TrainingEvent], None] = True,
    max_reject_share: float = 0.05,
    **settings: Any,
) -> Model:
    """Trains a model on this machine and writes ``OUTPUT/bundle``.

    The same call continues an interrupted run from ``OUTPUT/checkpoints``; if the run is finished, it returns the
    model. On Ctrl-C or SIGTERM, a checkpoint is saved before training stops.

    Args:
        data: any source of `load_dataset` with the splits train and dev.
        preset: ``auto`` (``tiny``, ``small`` or ``medium``, by the number of texts), a preset's name, or a YAML file.
        callbacks: called in both stages (`agggen.training.callbacks.Callback`).
        progress: whether to print progress on standard error, or a function that is called with each `TrainingEvent`.
        max_reject_share: fraction of a split's records and texts that may be rejected (``OUTPUT/rejects.jsonl``).
        settings: override the preset: ``training={"seed": 2}, model={"width": 64}``.

    Raises:
        ConfigError: a preset or setting is unknown, or `output` contains a run with other data or settings.
        CorpusError: the data cannot be read, or too many records are rejected.
        StoppedError, TrainingError: see `agggen.errors`.
    """
    dataset = training_dataset(data)
    config = config_for(RunConfig, dataset, preset, as_overrides(settings))
    records = training_data(config, max_reject_share, dataset)
    return _train_in_folder(config, records, Path(output), callbacks, progress, max_reject_share)


def adapt(
    model: Model | Path | str,
    data: Any,
    /,
    output: Path | str = "runs/adapted",
    *,
    replay: Any = None,
    callbacks: Iterable[Callback] = (),
    progress: bool | Callable[[TrainingEvent], None] = True,
    max_reject_share: float = 0.05,
    **settings: Any,
) -> Model:
    """Fine-tunes a model on new data and writes ``OUTPUT/bundle``; a repeated call resumes as in `train`.

    Embeddings of new words and predicates are added. Texts of the model's training corpus are mixed in to prevent
    catastrophic forgetting (``training={"replay": 0.5}``: half of each epoch's texts).

    Args:
        model: a model or its address (`load_model`). The model is not changed; its fingerprint is stored in the new
            bundle as ``bundle.sources["start"]``.
        data, callbacks, progress, max_reject_share: see `train`.
        replay: the corpus to mix in. [default: the model's training corpus, if available]
        settings: override the settings of the bundle and of the preset ``adapt``; the model's sizes cannot change.
    """
    address = model.path if isinstance(model, Model) else model
    note = print_to_stderr if progress is True else lambda message: None
    dataset, overrides = training_dataset(data), as_overrides(settings)
    config, records = adaptation(RunConfig, address, dataset, replay, overrides, max_reject_share, note)
    return _train_in_folder(config, records, Path(output), callbacks, progress, max_reject_share)


def _train_in_folder(
    config: RunConfig,
    data: Data,
    folder: Path,
    callbacks: Iterable[Callback],
    progress: bool | Callable[[TrainingEvent], None],
    max_reject_share: float,
) -> Model:
    """Trains in `folder`, resuming an unfinished run; returns the model, without training if the run is finished."""
    identity = flatten(config) | data.input_fingerprints
    run_file, bundle_path = folder / "run.json", folder / "bundle"
    finished = (bundle_path / "manifest.json").is_file()
    if bundle_path.exists() and not finished:
        raise BundleError(f"{bundle_path} is not a bundle (no manifest.json): remove it, or choose another output")
    if run_file.is_file():
        stored = json.loads(run_file.read_text(encoding="utf-8"))
        check_unchanged(stored, identity, f"the run in {folder}", "another output")
    elif not finished:
        folder.mkdir(parents=True, exist_ok=True)
        run_file.write_text(json.dumps(identity, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not finished:
        on_event = ProgressLines() if progress is True else progress or None
        callbacks = [*callbacks, *([EventReporter(on_event)] if on_event else [])]
        with StopRequest() as stop:
            start = data.start.bundle if data.start else None
            prepared = prepare(config, data.train, data.dev, max_reject_share, start, data.replay)
            if rejects := [*chain(*data.rejects.values(), *prepared.rejects.values())]:
                write_rejects(folder / "rejects.jsonl", rejects)
            try:
                model, metrics = fit(config, prepared, FileCheckpointer(folder / "checkpoints"), callbacks, stop=stop)
            except StoppedError as error:
                raise stop.with_exit_code(error) from error
            save_bundle(bundle_path, bundle_of(config, prepared, model, metrics, data.sources))
    return load_model(folder)


def evaluate(
    model: Model | Path | str,
    data: Any,
    split: str = "test",
    *,
    limit: int = 0,
    protocol: str | None = None,
    metrics: Sequence[str] | None = None,
    run_archives: bool = False,
    **settings: Any,
) -> "Report":
    """Generates texts for records and scores texts, plans and alignments.

    Args:
        data: records with references, or a dataset with the split `split`.
        limit: number of records to evaluate, from the beginning of the split; 0: all.
        protocol: one of `agggen.evaluation.protocols`. [default: that of the corpus's published scores]
        metrics: names of metrics of the protocol. [default: all]
        run_archives: see `Bundle.fact_segmenter`.
        settings: inference settings, see `Model.settings`.

    Raises CorpusError if no record has a reference text, ConfigError if a metric cannot be computed on this machine.
    """
    from agggen.report.evaluate import Task
    from agggen.report.evaluate import evaluate as evaluate_task
    from agggen.report.sections import TextMetrics, protocol_of

    loaded_model = model if isinstance(model, Model) else load_model(model)
    is_dataset = isinstance(data, Dataset | str | Path)
    dataset = load_dataset(data) if is_dataset else Dataset("data", {split: load_records(data)})
    records = [record for record in dataset.split(split) if record.references]
    task = Task(
        bundle=loaded_model.bundle,
        path=loaded_model.path,
        address=str(loaded_model.path),
        corpus=dataset.name,
        split=split,
        records=records[: limit or None],
        split_size=len(records),
        config=loaded_model.settings(**settings),
        metrics=TextMetrics(protocol or protocol_of(dataset.name), None if metrics is None else tuple(metrics)),
        command="agggen.evaluate",
        segmenter=loaded_model.bundle.fact_segmenter(run_archives),
        device=str(loaded_model.generator.device),
    )
    return evaluate_task(task, progress_printer(len(task.records)), note=lambda message: None)


def _reference_texts(reference: Any) -> list[str]:
    """The texts of an entry of `score`'s `references`: a record, a text or a list of texts."""
    if isinstance(reference, Record):
        return [record_reference.text for record_reference in reference.references]
    return [reference] if isinstance(reference, str) else list(reference)


class Scores(dict[str, Score]):
    """Scores by name; printed with their signatures, one per line."""

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {score}" for name, score in self.items())


def score(
    texts: Sequence[str], references: Any, protocol: str = "plain", metrics: Sequence[str] | None = None
) -> Scores:
    """Scores the texts of any system.

    Args:
        references: the reference or references of each text; or records with references (any source of
            `load_records`), which adds scores for the records' values.
        protocol, metrics: see `agggen.evaluation.protocols`.

    Raises AggGenError if the numbers of texts and references differ, or a text has no reference.
    """
    from agggen.evaluation.protocols import measure
    from agggen.evaluation.values import check_values

    is_table = isinstance(references, str | Path) or hasattr(references, "columns")
    entries = load_records(references) if is_table else list(references)
    if any(isinstance(entry, Mapping) for entry in entries):
        entries = load_records(entries)
    records = [entry for entry in entries if isinstance(entry, Record)]
    statistics = dict(measure(protocol, texts, list(map(_reference_texts, entries)), metrics))
    if records and len(records) == len(entries):
        statistics |= check_values(records, texts).statistics
    return Scores({name: metric.corpus() for name, metric in statistics.items()})
