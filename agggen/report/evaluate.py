"""Evaluates a bundle on records: generates texts, and scores texts, plans and alignments."""

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from agggen.bundle import Bundle, fingerprint
from agggen.config import config_hash, flatten
from agggen.corpora.catalogue import list_corpora
from agggen.datasets import fingerprint_of
from agggen.evaluation.held_out import alignments, generate_outputs
from agggen.evaluation.published import board_for
from agggen.evaluation.segments import RESAMPLES
from agggen.evaluation.values import check_values
from agggen.facts import FactSegmenter
from agggen.generation.generator import InferenceConfig
from agggen.records import Record
from agggen.report import Report
from agggen.report.build import breakdowns, compare_with_published, reference_groups, rows_of
from agggen.report.content import Cell
from agggen.report.sections import TextMetrics, model_sections, text_scores

N_BEST = 5  # number of texts per record, for the measures of diversity


@dataclass(frozen=True)
class Task:
    """The inputs and settings of an evaluation."""

    bundle: Bundle
    path: Path  # the bundle's local folder
    address: str  # the bundle's address in the command
    corpus: str  # the name of the corpus; the name in the catalogue if the catalogue has the corpus
    split: str
    records: Sequence[Record]
    split_size: int  # the number of records with references in the complete split
    config: InferenceConfig
    metrics: TextMetrics
    command: str
    segmenter: FactSegmenter  # segments references without facts
    device: str = "cpu"

    @property
    def title(self) -> str:
        """The name of the run's folder for a local bundle, otherwise its address."""
        return self.path.resolve().parent.name if Path(self.address) == self.path else self.address

    @property
    def partial(self) -> str:
        """A note that only a part of the split is evaluated; empty for the complete split."""
        part = f"{len(self.records):,} of {self.split_size:,} records of {self.corpus} {self.split}"
        return "" if len(self.records) == self.split_size else f"Only the first {part} are scored."

    @cached_property
    def identity(self) -> dict[str, str | int]:
        """Everything that determines the scores: bundle, data and settings."""
        return {
            "bundle": fingerprint(self.path),
            "corpus": self.corpus,
            "split": self.split,
            "records": fingerprint_of(self.records),
            "inference": config_hash(self.config),
            "protocol": self.metrics.protocol,
            "metrics": "all" if self.metrics.metrics is None else " ".join(self.metrics.metrics),
        }

    @property
    def name(self) -> str:
        """A file name: corpus, split and a hash of the identity."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:8]
        return re.sub(r"[^\w.\-]", "_", f"{self.corpus}-{self.split}-{digest}")


def trained_on(bundle: Bundle) -> str | None:
    """The catalogue's corpus, or "a part of" it, on which a bundle was trained; None if unknown."""
    corpus = bundle.config.get("corpus")
    if not isinstance(corpus, Mapping) or corpus.get("name") not in {entry.name for entry in list_corpora()}:
        return None
    return f"a part of {corpus['name']}" if corpus.get("limit") else str(corpus["name"])


def run_information(task: Task, seconds: Mapping[str, float]) -> dict[str, Cell]:
    """The bundle, data, settings and machine of an evaluation, to reproduce the report."""
    return {
        "command": task.command,
        "bundle": task.address,
        "bundle fingerprint": task.identity["bundle"],
        "training configuration (hash)": config_hash(dict(task.bundle.config)),
        **{f"fingerprint of {name}": value for name, value in task.bundle.sources.items()},
        "corpus": f"{task.corpus} {task.split}",
        "records": len(task.records),
        "corpus fingerprint": task.identity["records"],
        "protocol": task.metrics.protocol,
        "seed": task.config.seed,
        "95 % intervals": f"bootstrap over records (percentiles, {RESAMPLES:,} samples, seed {task.config.seed})",
        "inference (hash)": task.identity["inference"],
        **{f"inference {name}": value for name, value in flatten(task.config).items()},
        **{f"seconds, {step}": f"{value:.1f}" for step, value in seconds.items()},
        "finished": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        **machine(),
    }


def machine() -> dict[str, Cell]:
    """Versions, system and processors of this machine."""
    versions: dict[str, Cell] = {"Python": platform.python_version()}
    for package in ("agggen", "torch", "numpy", "scipy", "scikit-learn", "sacrebleu", "pycocoevalcap"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    processors = f"{os.cpu_count()} processors, {torch.get_num_threads()} threads of torch"
    return versions | {"machine": f"{platform.platform()}, {platform.machine()}, {processors}"}


def evaluate(task: Task, progress: Callable[[int], None], note: Callable[[str], None]) -> Report:
    """Generates texts for the records and builds the report; `note` is called for metrics that cannot be computed.

    Raises ConfigError if a requested metric cannot be computed, RecordError if a record has too many triples.
    """
    generator = task.bundle.generator(task.device)
    start = time.monotonic()
    output = generate_outputs(generator, task.records, task.config, N_BEST, progress)
    generation_end = time.monotonic()
    records, texts = output.records, output.texts
    scores = text_scores(task.metrics, records, texts, task.config.seed)
    values = check_values(records, texts, generator.checker)
    plans, facts = zip(*((generation.plan, generation.facts) for generation in output.generations), strict=True)
    rows = rows_of(records, texts, values, plans, facts, scores.segment_scores)
    sections = scores.sections + model_sections(
        output, rows, alignments(generator, records), values.statistics, task.config.ablation, task.config.seed
    )
    for section in sections:
        for measure in section.measures:
            if measure.score is None:
                note(f"warning: {section.key}/{measure.name} is not computed: {measure.reason}")
    seconds = {"writing": generation_end - start, "scoring": time.monotonic() - generation_end}
    protocol, training_corpus = task.metrics.protocol, trained_on(task.bundle)
    board, reason = board_for(task.corpus, task.split, len(task.records), protocol, training_corpus)
    published, note_on_published = compare_with_published(board, sections) if board else (None, reason)
    return Report(
        f"{task.title} on {task.corpus} {task.split}",
        task.identity,
        run_information(task, seconds),
        sections,
        rows,
        {"published": published, **breakdowns(rows, scores.plain, reference_groups(records, task.segmenter))},
        note_on_published,
        task.partial,
        task.config.seed,
    )
