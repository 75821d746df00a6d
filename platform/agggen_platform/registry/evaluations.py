"""Evaluations of versions, and the metric gate: a candidate is compared with the champion on the same evaluation only.

`read_evaluation` reads the numbers of a report of `agggen evaluate`, with what must be equal for a comparison: corpus,
split, the records' fingerprint, protocol, and each metric's signature.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agggen.config import flatten
from agggen.errors import ConfigError
from agggen.evaluation import method
from agggen.generation.generator import InferenceConfig
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry.client import registry_errors
from agggen_platform.registry.store import EVALUATION, Version
from agggen_platform.storage.folder import Folder

_HIGHER = {
    "bleu", "chrf", "nist", "meteor", "rouge_l", "cider", "values_whole", "values_lenient", "texts_without_faults",
    "fulfilled", "nmi_max", "nmi_avg", "tau_max", "tau_avg", "ami", "ari", "exact_match", "exact_partition",
    "viterbi_accuracy", "viterbi_precision",
}  # fmt: skip
_SER = (f"{kind}.{part}" for kind in ("ser", "ser_plain") for part in ("add", "miss", "wrong", "ser"))
_LOWER = {"ter", "invented", *_SER}


@dataclass(frozen=True)
class Evaluation:
    """The scores of a version on a set of records."""

    corpus: str
    split: str
    records: str
    """The fingerprint of the records."""
    count: int
    """How many records."""
    partial: bool
    """Whether they are only the first of the split."""
    protocol: str
    at: str
    scores: Mapping[str, tuple[float, str]]
    """Value and signature by ``section/name``."""

    @property
    def key(self) -> str:
        """The tag's name; a newer evaluation of the same records by the same protocol replaces it."""
        digest = hashlib.sha256(f"{self.corpus}\0{self.split}\0{self.records}\0{self.protocol}".encode()).hexdigest()
        return f"{EVALUATION}{digest[:12]}"

    @property
    def options(self) -> str:
        """The options of `agggen evaluate` for the same evaluation."""
        limit = f" --limit {self.count}" if self.partial else ""
        return f"--corpus {self.corpus} --split {self.split} --protocol {self.protocol}{limit}"

    def to_json(self) -> str:
        """The tag's value."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Reads a tag's value."""
        values = json.loads(text)
        values["scores"] = {name: (value, signature) for name, (value, signature) in values["scores"].items()}
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.corpus} {self.split} ({self.count:,} records, protocol {self.protocol})"


def evaluations_of(version: Version) -> list[Evaluation]:
    """The evaluations of a version, newest last."""
    return sorted(map(Evaluation.from_json, version.tagged(EVALUATION).values()), key=lambda evaluation: evaluation.at)


def read_evaluation(report: Path | str, fingerprint: str, inference: InferenceConfig, uri: str) -> Evaluation:
    """The numbers of a report that `agggen evaluate` wrote.

    Args:
        report: a folder, here or in a store, or ``runs:/RUN_ID`` of MLflow.
        fingerprint: of the bundle that the report must be about.
        inference: the bundle's own settings, which the report must have used.
        uri: of MLflow.

    Raises:
        ConfigError: there is no report, or it is about another bundle or about other settings.
        RegistryError, StorageError: MLflow or the store refused or did not answer.
    """
    address = str(report)
    file = f"{address.rstrip('/')}/report.json"
    content = (
        _artifact(address.removeprefix("runs:/"), uri)
        if address.startswith("runs:/")
        else Folder(address).read("report.json")
    )
    if content is None:
        raise ConfigError(f"{address} holds no report of `agggen evaluate`: there is no {file}")
    try:
        read = json.loads(content)
        identity, run, sections = read["identity"], read["run"], read["scores"]
        bundle = identity["bundle"]
        measures = {
            f"{key}/{measure['name']}": measure for key, section in sections.items() for measure in section["measures"]
        }
        scores = {
            name: (float(measure["value"]), str(measure["signature"]))
            for name, measure in measures.items()
            if measure["value"] is not None and _leaf(name) in _HIGHER | _LOWER
        }
        evaluation = Evaluation(
            identity["corpus"],
            identity["split"],
            identity["records"],
            int(run["records"]),
            bool(read["partial"]),
            identity["protocol"],
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            scores,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is not a report of `agggen evaluate` ({type(error).__name__}: {error})") from error
    if bundle != fingerprint:
        raise ConfigError(f"the report in {address} is about another bundle: {bundle}, not {fingerprint}")
    if differs := _other_settings(run, inference):
        raise ConfigError(f"the report in {address} is not about the bundle as it writes by itself: {differs}")
    return evaluation


def _artifact(run_id: str, uri: str) -> bytes | None:
    """The report among the files of a run of MLflow; None if it has none."""
    with tempfile.TemporaryDirectory(prefix="agggen-report-") as scratch, registry_errors(uri):
        client = mlflow_client(uri)
        if not any(file.path == "report.json" for file in client.list_artifacts(run_id)):
            return None
        return Path(client.download_artifacts(run_id, "report.json", scratch)).read_bytes()


def _other_settings(run: Mapping[str, Any], inference: InferenceConfig) -> str:
    """The first setting that differs; the seed matters only for random orders."""
    for name, own in flatten(inference).items():
        used = run.get(f"inference {name}")
        if used != own and (name != "seed" or inference.ablation == "random-order"):
            return f"{name} was {used}, the bundle has {own}"
    return ""


def _leaf(metric: str) -> str:
    return metric.rpartition("/")[2]


@dataclass(frozen=True)
class Gate:
    """The metric in which a candidate must not be worse than the champion, on every evaluation that both have."""

    metric: str = "plain/bleu"
    tolerance: float = 0.0
    """By how much, in the metric's own points, the candidate may be worse."""
    corpus: str | None = None
    """Only evaluations of this corpus count; None: all. `split` likewise."""
    split: str | None = None

    def __post_init__(self) -> None:
        if _leaf(self.metric) not in _HIGHER | _LOWER or "/" not in self.metric:
            raise ConfigError(
                f"no gate by {self.metric!r}: write a section and a metric of a report, say plain/bleu, plain/ter or "
                "faithfulness/values_whole; a metric without a better direction cannot decide"
            )
        if not self.tolerance >= 0:
            raise ConfigError(f"the tolerance must be a number of 0 or more, not {self.tolerance}")

    def judge(self, candidate: Version, champion: Version | None) -> Verdict:
        """Compares candidate and champion on every evaluation that both have."""
        if champion is None:
            return Verdict(True, "nothing to compare with: no version had the alias")
        of_candidate, of_champion = self._counting(candidate), self._counting(champion)
        shared = [(ours, theirs) for ours in of_candidate for theirs in of_champion if self._comparable(ours, theirs)]
        if not shared:
            return Verdict(False, self._missing(candidate, champion, of_candidate, of_champion))
        notes, passed = [], True
        for ours, theirs in shared:
            (value, _), (best, _) = ours.scores[self.metric], theirs.scores[self.metric]
            worse = (best - value) if _leaf(self.metric) in _HIGHER else (value - best)
            fine = worse <= self.tolerance
            passed &= fine
            # Enough digits to show the difference.
            digits = 2 if abs(worse) >= 0.005 or not worse else 6
            scores = f"{self.metric} {value:.{digits}f} against {best:.{digits}f} of version {champion.number}"
            note = f"{scores} on {ours}"
            notes.append(note if fine else f"{note}: worse by {worse:.{digits}f}, {self.tolerance:g} is tolerated")
        return Verdict(passed, "; ".join(notes))

    def _counting(self, version: Version) -> list[Evaluation]:
        return [
            evaluation
            for evaluation in evaluations_of(version)
            if self.metric in evaluation.scores
            and self.corpus in (None, evaluation.corpus)
            and self.split in (None, evaluation.split)
        ]

    def _comparable(self, first: Evaluation, second: Evaluation) -> bool:
        return first.key == second.key and method(first.scores[self.metric][1]) == method(second.scores[self.metric][1])

    def _missing(
        self,
        candidate: Version,
        champion: Version,
        of_candidate: Sequence[Evaluation],
        of_champion: Sequence[Evaluation],
    ) -> str:
        """Names the missing evaluations, with the commands that make them."""
        asked = self.metric + "".join(f" on {part}" for part in (self.corpus, self.split) if part)
        if known := of_champion or of_candidate:
            options = known[-1].options
        else:
            options = f"--corpus {self.corpus or 'CORPUS'} --split {self.split or 'SPLIT'}"
        both = [(candidate, of_candidate), (champion, of_champion)]
        lacking = [version for version, evaluations in both if not evaluations] or [candidate, champion]
        why = (
            "their evaluations differ in records, protocol or signature"
            if of_candidate and of_champion
            else f"it is missing for {' and '.join(f'version {version.number}' for version in lacking)}"
        )
        commands = " && ".join(
            f"agggen evaluate models:/{version} {options} -o DIR-{version.number} && "
            f"agggen models record {version} DIR-{version.number}"
            for version in lacking
        )
        return f"no common evaluation of {asked}: {why}. Run: {commands}"


@dataclass(frozen=True)
class Verdict:
    """The decision of the gate."""

    passed: bool
    note: str
