"""Evaluates a bundle on a split of a corpus, writes the report, and logs the scores."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agggen.bundle import fingerprint, load_bundle
from agggen.config import flatten, load_config, overrides_of
from agggen.corpora.prepared import MANIFEST, describe, listed_parts
from agggen.datasets import load_dataset
from agggen.errors import ConfigError, CorpusError
from agggen.generation.generator import InferenceConfig
from agggen.report import Report
from agggen.report.evaluate import Task
from agggen.report.evaluate import evaluate as evaluate
from agggen.report.folder import FILES
from agggen.report.sections import TextMetrics, protocol_of
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import Tracker
from agggen_platform.tracking.origin import command_line


def catalogue_names(corpus: str, split: str) -> tuple[str, str]:
    """The catalogue's names of a corpus and split, read from the metadata if `corpus` is a prepared folder."""
    parts = listed_parts(Path(corpus) / MANIFEST).get(split, ())
    file = Path(corpus) / (parts[0]["name"] if parts else f"{split}.parquet")
    metadata = describe(file) if file.is_file() else {"corpus": corpus, "split": split}
    return metadata["corpus"], metadata["split"]


def task_of(
    bundle: str,
    path: Path,
    corpus: str,
    split: str,
    overrides: Sequence[str] = (),
    *,
    limit: int = 0,
    protocol: str | None = None,
    metrics: tuple[str, ...] | None = None,
    run_archives: bool = False,
    device: str = "cpu",
    load_options: Mapping[str, Any] = MappingProxyType({}),
    note: Callable[[str], None] = lambda _: None,
) -> Task:
    """The evaluation that `agggen evaluate` runs for these arguments.

    Args:
        bundle: the bundle's address; `path` is its folder on this machine.
        split: a name, or ``all`` for all records of a file; of it, the first `limit` (0: all) records with references.
        load_options: keyword arguments of `load_dataset`, such as the column names of a table.
        protocol, metrics: see `TextMetrics`. [default: the protocol of published results on the corpus]

    Raises ConfigError if a setting, protocol or metric does not exist or cannot be computed here.
    """
    loaded_bundle = load_bundle(path)
    config = load_config(InferenceConfig, None, [*overrides_of(loaded_bundle.inference), *overrides])
    source = {"all": corpus} if split == "all" and Path(corpus).is_file() else corpus
    data = load_dataset(source, name=corpus, splits=(split,), **load_options)
    records = [record for record in data.split(split) if record.references]
    if not records:
        raise CorpusError(f"{corpus} {split} has no reference texts to evaluate against")
    if rejects := list(chain(*data.rejects.values())):
        note(f"{len(rejects):,} records of {corpus} cannot be read; the first: {rejects[0]}")
    corpus_name, split_name = catalogue_names(corpus, split)
    return Task(
        bundle=loaded_bundle,
        path=path,
        address=bundle,
        corpus=corpus_name,
        split=split_name,
        records=records[: limit or None],
        split_size=len(records),
        config=config,
        metrics=TextMetrics(protocol or protocol_of(corpus_name), metrics),
        command=command_line(),
        segmenter=loaded_bundle.fact_segmenter(run_archives),
        device=device,
    )


@contextmanager
def report_folder(address: str) -> Iterator[Path]:
    """Yields the folder of a report; for a store, a local copy that is uploaded if the block raises no error.

    In the message of a ConfigError of the block, the copy's path is replaced by `address`.
    """
    if "://" not in address:
        yield Path(address)
        return
    folder = Folder(address)
    with tempfile.TemporaryDirectory(prefix="agggen-report-") as scratch:
        copy = Path(scratch) / "report"
        for name in folder.names():
            with Folder(str(copy)).new(name) as path:
                path.write_bytes((folder.read(name) or b"") if name in FILES else b"")
        try:
            yield copy
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(copy), address)) from error
        for name in sorted(FILES, key=lambda name: name == "report.json"):  # report.json last: it marks completion
            folder.upload(name, copy / name)


def log_report(task: Task, report: Report, folder: Path, runs: Path, note: Callable[[str], None]) -> str | None:
    """Logs a report's scores and files to MLflow; returns the MLflow run id, or None. Passes errors to `note`."""
    try:
        with Tracker(run_name=f"evaluate-{task.name}", runs_dir=runs, report=note) as tracker:
            tracker.log_params(dict(report.run))
            tracker.log_metrics({f"{task.split}/{name}": value for name, value in report.measures().items()})
            corpus, records_fingerprint = f"{task.corpus}/{task.split}", str(task.identity["records"])
            config, bundle = flatten(task.bundle.config), fingerprint(task.path)
            tracker.log_model(task.address, bundle, config, report.measures(), corpus, records_fingerprint)
            rows = report.rows[:: max(len(report.rows) // 50, 1)][:50]
            tracker.log_texts((row.record, row.plan, row.text) for row in rows)
            for name in FILES:
                tracker.log_artifact(folder / name)
        return tracker.run_id
    except Exception as error:  # a tracking error must not stop the evaluation
        note(f"warning: this evaluation is not in the run log: {error}")
        return None


def runs_folder_of(bundle: Path) -> Path:
    """The runs folder that contains the training run of `bundle`; ``runs`` if there is none."""
    run = bundle.resolve().parent
    return run.parent if (run / "tracking.jsonl").is_file() else Path("runs")
