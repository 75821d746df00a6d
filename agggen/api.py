"""Models: trained from data, loaded, and asked for plans, texts, checks and alignments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agggen.bundle import Bundle, load_bundle, save_bundle
from agggen.checks import check
from agggen.config import as_overrides, flatten, load_config, overrides_of, resolved
from agggen.datasets import load_dataset, load_records
from agggen.display import Results
from agggen.errors import AggGenError, StoppedError
from agggen.generation.generator import Generator, InferenceConfig
from agggen.generation.results import AlignedText, PlannedRecord
from agggen.records import Plan, Record
from agggen.run import RunConfig
from agggen.run import train as train_records
from agggen.training.adaptation import adaptation
from agggen.training.callbacks import Callback
from agggen.training.choice import AUTO, config_for
from agggen.training.data import Data, bundle_folder, check_same, training_data
from agggen.training.events import EventReporter, TrainingEvent
from agggen.training.progress import ProgressLines
from agggen.training.stopping import StopRequest

_RUN = "run.json"


class Model:
    """A trained model. Every call takes one record or several (a list, DataFrame, Arrow table or file) and gives one
    result or `Results` in the same order. Not thread-safe.
    """

    def __init__(self, bundle: Bundle, path: Path, device: str = "cpu") -> None:
        self.bundle, self.path = bundle, path
        self.generator: Generator = bundle.generator(device)

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that training saw."""
        return self.bundle.encoder.predicates[1:]

    def settings(self, overrides: Sequence[str] = (), **settings: Any) -> InferenceConfig:
        """The bundle's settings of inference with others instead: ``level=2``, ``verify="off"``, ``beam={"beam": 3}``.

        Raises:
            ConfigError: there is no such setting, or not of this value.
        """
        changed = [*overrides_of(self.bundle.inference), *overrides, *as_overrides(settings)]
        return load_config(InferenceConfig, None, changed)

    def plan(self, records: Any, k: int = 5, **settings: Any) -> Any:
        """The `k` most probable plans of each record, best first (`Results` of `PlannedRecord`).

        Args:
            settings: see `settings`; ``planner="sample"`` draws plans by their probabilities instead.

        Raises:
            PlanError, RecordError, ConfigError: what cannot be planned, or a setting that does not exist.
        """
        many, single = _many(records)
        planned: list[Results[PlannedRecord]] = [
            Results(plans) for plans in self.generator.planner.plan(many, k, self.settings(**settings))
        ]
        return planned[0] if single else Results(planned)

    def generate(
        self, records: Any, plan: Any = None, *, n_best: int = 1, complete: bool = False, **settings: Any
    ) -> Any:
        """A text for each record (`Generation`: ``text``, ``plan``, ``facts``, ``faults``, ...).

        Args:
            plan: followed exactly: ``"[food] [near area]"`` for all records, or a list with one a record (None: the
                model's own).
            n_best: with more than 1, each result is `Results` of so many texts, best first.
            complete: the model adds the predicates that `plan` omits.
            settings: see `settings`.

        Raises:
            PlanError: the plan does not fit a record.
            RecordError, ConfigError: what cannot be written about, or a setting that does not exist.
        """
        many, single = _many(records)
        plans = [plan] * len(many) if plan is None or isinstance(plan, str | Plan) else list(plan)
        if len(plans) != len(many):
            raise AggGenError(f"{len(many)} records but {len(plans)} plans; give one plan, or one a record")
        human = [Plan.parse(one) if isinstance(one, str) else one for one in plans]
        found = self.generator.generate(many, human, complete, n_best, self.settings(**settings))
        results: list[Any] = [texts[0] if n_best == 1 else Results(texts) for texts in found]
        return results[0] if single else Results(results)

    def check(self, records: Any, text: Any) -> Any:
        """What each text says of its record, what is missing and what is invented (`agggen.check`).

        The check by words knows the wordings of the training texts.
        """
        return check(records, text, checker=self.generator.checker)

    def align(self, records: Any, text: Any, run_archives: bool = False) -> Any:
        """Which triples each fact of each text says (`AlignedText`), by Viterbi (paper section 5.3).

        Args:
            run_archives: see `Bundle.fact_segmenter`.
        """
        many, single = _many(records)
        pairs = _paired(many, text)
        facts = self.bundle.fact_segmenter(run_archives).segment([one for _, one in pairs])
        aligned: list[AlignedText] = self.generator.align(many, facts)
        return aligned[0] if single else Results(aligned)

    def save(self, folder: Path | str) -> None:
        """Writes the bundle to a folder that does not exist yet."""
        save_bundle(folder, self.bundle)

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.bundle.model.parameters())
        return f"agggen.Model({str(self.path)!r}: {parameters:,} parameters, {len(self.predicates):,} predicates)"


def _many(records: Any) -> tuple[list[Record], bool]:
    """The records, and whether a single one was given."""
    if isinstance(records, Record):
        return [records], True
    return load_records(records), isinstance(records, Mapping)


def _paired(records: Sequence[Record], texts: Any) -> list[tuple[Record, str]]:
    given = [texts] if isinstance(texts, str) else list(texts)
    if len(given) != len(records):
        raise AggGenError(f"{len(records)} records but {len(given)} texts; there must be one text a record")
    return list(zip(records, given, strict=True))


def load_model(address: Path | str, device: str = "cpu") -> Model:
    """A model from its bundle: a folder, the folder of a run, ``s3://...`` or a registered ``models:/NAME@ALIAS``.

    Args:
        address: of the bundle.
        device: what computes: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is a GPU if there is one.

    Raises:
        BundleError: there is none, or it was changed.
        ConfigError: the device is not available.
        RegistryError, StorageError: the registry or store fails.
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
    """Trains a model on this machine and writes ``OUTPUT/bundle``; called again, it continues, or returns the model.

    Ctrl-C and SIGTERM save first. Workers of a cluster, stores and the run log are the business of ``agggen train``.

    Args:
        data: a `Dataset`, or what `load_dataset` takes; needs splits train and dev.
        preset: ``auto`` (by size: ``tiny``, ``small`` or ``medium``), another preset's name, or a YAML file.
        output: the run's folder.
        callbacks: follow both stages (`agggen.training.callbacks.Callback`).
        progress: lines on standard error; a function gets the events instead; False is silent.
        max_reject_share: of a split's records and texts that may be left out (``OUTPUT/rejects.jsonl`` lists them).
        settings: over the preset's: ``training={"seed": 2}, model={"width": 64}``.

    Raises:
        ConfigError: a preset or setting that does not exist, or `output` holds a run of other data or settings.
        CorpusError: the data cannot be read, or too many records are left out.
        StoppedError: stopped by a signal; the same call continues.
        TrainingError: training cannot go on.
    """
    dataset = load_dataset(data)
    config = config_for(RunConfig, dataset, preset, as_overrides(settings))
    own = training_data(config, max_reject_share, dataset)
    return _trained(config, own, Path(output), callbacks, progress, max_reject_share)


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
    """Continues a trained model on new data, and writes ``OUTPUT/bundle``; called again, as `train`.

    Words and predicates that the model does not know are added; known ones keep their vectors. Old texts are mixed in
    (``training={"replay": 0.5}``: half of all), so that the model forgets less.

    Args:
        model: or its address, as `load_model` takes it. It is left as it is, and the new bundle names its fingerprint
            (``bundle.sources["start"]``).
        data: see `train`.
        replay: the corpus of the old texts. [default: those that the bundle names, if they can be read here]
        output, callbacks, progress, max_reject_share: see `train`.
        settings: over the bundle's and those of the preset ``adapt``. The sizes of the model stay.

    Raises:
        BundleError, RegistryError, StorageError: see `load_model`.
        ConfigError, CorpusError, StoppedError, TrainingError: see `train`.
    """

    def say(sentence: str) -> None:
        if progress is True:
            print(sentence, file=sys.stderr)

    address = model.path if isinstance(model, Model) else model
    overrides = as_overrides(settings)
    config, own = adaptation(RunConfig, address, load_dataset(data), replay, overrides, max_reject_share, say)
    return _trained(config, own, Path(output), callbacks, progress, max_reject_share)


def _trained(
    config: RunConfig,
    own: Data,
    folder: Path,
    callbacks: Iterable[Callback],
    progress: bool | Callable[[TrainingEvent], None],
    max_reject_share: float,
) -> Model:
    """Trains in `folder`, continues there, or finds a finished run."""
    asked = flatten(config) | own.decisive
    begun = folder / _RUN
    if begun.is_file():
        check_same(json.loads(begun.read_text(encoding="utf-8")), asked, f"the run in {folder}", "another output")
    if not (folder / "bundle" / "manifest.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        begun.write_text(json.dumps(asked, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        shown = ProgressLines() if progress is True else progress or None
        listeners = [*callbacks, *([EventReporter(shown)] if shown else [])]
        with StopRequest() as stop:
            try:
                train_records(
                    config,
                    own.train,
                    own.dev,
                    folder,
                    lambda stage: listeners,
                    own.sources,
                    resolved(config),
                    stop=stop,
                    max_reject_share=max_reject_share,
                    start=own.start.bundle if own.start else None,
                    rejects=[reject for rejects in own.rejects.values() for reject in rejects],
                )
            except StoppedError as error:
                raise stop.stopped(error) from error
    return load_model(folder)
