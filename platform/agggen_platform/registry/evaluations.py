"""Evaluations of versions, and the metric gate, which compares candidate and champion on the same evaluations.

An evaluation has the scores of a report of `agggen evaluate`. Two evaluations are comparable if corpus, split, the
records' fingerprint, protocol, and the metric's signature are equal.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agggen.bundle import Bundle
from agggen.config import flatten
from agggen.errors import ConfigError
from agggen.evaluation import without_counts
from agggen.generation.generator import InferenceConfig
from agggen.verification.critic.critic import Critic
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry.client import registry_errors
from agggen_platform.registry.store import EVALUATION, Version
from agggen_platform.storage.errors import StorageError
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
    records: str  # the fingerprint of the records
    count: int  # the number of records
    partial: bool  # whether only the first records of the split were evaluated
    protocol: str
    at: str  # when the evaluation was recorded, in UTC
    scores: Mapping[str, tuple[float, str]]  # value and signature by ``section/name``

    @property
    def key(self) -> str:
        """The name of the evaluation's tag; a newer evaluation of the same records and protocol replaces its value."""
        digest = hashlib.sha256(f"{self.corpus}\0{self.split}\0{self.records}\0{self.protocol}".encode()).hexdigest()
        return f"{EVALUATION}{digest[:12]}"

    @property
    def options(self) -> str:
        """The options of `agggen evaluate` that repeat this evaluation."""
        limit = f" --limit {self.count}" if self.partial else ""
        return f"--corpus {self.corpus} --split {self.split} --protocol {self.protocol}{limit}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        values = json.loads(text)
        values["scores"] = {name: (value, signature) for name, (value, signature) in values["scores"].items()}
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.corpus} {self.split} ({self.count:,} records, protocol {self.protocol})"


def evaluations_of(version: Version) -> list[Evaluation]:
    return sorted(map(Evaluation.from_json, version.tagged(EVALUATION).values()), key=lambda evaluation: evaluation.at)


def read_evaluation(report: Path | str, fingerprint: str, bundle: Bundle | Critic, uri: str) -> Evaluation:
    """Reads a report that `agggen evaluate` wrote.

    Args:
        report: a folder, local or in a store, or ``runs:/RUN_ID`` of the MLflow at `uri`.
        bundle: must have been evaluated with its own inference settings; it has this `fingerprint`.

    Raises:
        ConfigError: there is no report, another bundle or other settings were evaluated, or `bundle` is a critic.
        RegistryError, StorageError: MLflow or the store refused access or did not answer.
    """
    if isinstance(bundle, Critic):
        raise ConfigError("a critic writes no texts, so no report of `agggen evaluate` is about it")
    address = str(report)
    file = f"{address.rstrip('/')}/report.json"
    in_mlflow = address.startswith("runs:/")
    content = _artifact(address.removeprefix("runs:/"), uri) if in_mlflow else Folder(address).read("report.json")
    if content is None:
        raise ConfigError(f"{address} has no report of `agggen evaluate`: there is no {file}")
    try:
        read = json.loads(content)
        identity, run, evaluated = read["identity"], read["run"], read["identity"]["bundle"]
        evaluation = Evaluation(
            **{name: identity[name] for name in ("corpus", "split", "records", "protocol")},
            count=int(run["records"]),
            partial=bool(read["partial"]),
            at=utc_now(),
            scores={
                f"{section}/{measure['name']}": (float(measure["value"]), str(measure["signature"]))
                for section, table in read["scores"].items()
                for measure in table["measures"]
                if measure["value"] is not None and measure["name"] in _HIGHER | _LOWER
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is not a report of `agggen evaluate` ({type(error).__name__}: {error})") from error
    if evaluated != fingerprint:
        raise ConfigError(f"the report in {address} is about another bundle: {evaluated}, not {fingerprint}")
    if differs := _other_settings(run, bundle.inference):
        raise ConfigError(f"the report in {address} is about other inference settings than the bundle's: {differs}")
    return evaluation


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _artifact(run_id: str, uri: str) -> bytes | None:
    """The report of an MLflow run; None if the run has none."""
    from botocore.exceptions import BotoCoreError, ClientError

    with tempfile.TemporaryDirectory(prefix="agggen-report-") as scratch, registry_errors(uri):
        client = mlflow_client(uri)
        try:
            if not any(file.path == "report.json" for file in client.list_artifacts(run_id)):
                return None
            return Path(client.download_artifacts(run_id, "report.json", scratch)).read_bytes()
        except (BotoCoreError, ClientError) as error:  # MLflow does not convert errors of S3
            raise StorageError(f"the files of MLflow's run {run_id} cannot be read: {error}") from error


def _other_settings(run: Mapping[str, Any], inference: InferenceConfig) -> str:
    """Describes the first setting that differs, if any. The seed is compared only where plans are random."""
    random = inference.ablation == "random-order" or inference.planner == "sample"
    for name, expected in flatten(inference).items():
        used = run.get(f"inference {name}")
        if used != expected and (name != "seed" or random):
            return f"{name} was {used}, the bundle has {expected}"
    return ""


def _leaf(metric: str) -> str:
    return metric.rpartition("/")[2]


@dataclass(frozen=True)
class Gate:
    """The metric gate: a candidate must not be worse than the champion on any evaluation that both have."""

    metric: str = "plain/bleu"
    tolerance: float = 0.0  # by how much the candidate may be worse, in points of the metric

    def __post_init__(self) -> None:
        if _leaf(self.metric) not in _HIGHER | _LOWER or "/" not in self.metric:
            raise ConfigError(
                f"{self.metric!r} is not a metric for the gate: give a section and a metric of a report, such as "
                "plain/bleu, plain/ter or faithfulness/values_whole, of which higher or lower values are better"
            )
        if not self.tolerance >= 0:
            raise ConfigError(f"the tolerance must be a number of 0 or more, not {self.tolerance}")

    def judge(self, candidate: Version, champion: Version | None) -> Verdict:
        if champion is None:
            return Verdict(True, "nothing to compare with: no version had the alias")
        of_candidate, of_champion = self._evaluations(candidate), self._evaluations(champion)
        shared = of_candidate.keys() & of_champion.keys()
        if not shared:
            return Verdict(False, self._missing((candidate, of_candidate), (champion, of_champion)))
        notes, passed = [], True
        for key in sorted(shared):
            value, best = of_candidate[key].scores[self.metric][0], of_champion[key].scores[self.metric][0]
            worse = (best - value) if _leaf(self.metric) in _HIGHER else (value - best)
            passed &= worse <= self.tolerance
            digits = 2 if abs(worse) >= 0.005 or not worse else 6  # more for a small difference
            note = f"{self.metric} {value:.{digits}f} against {best:.{digits}f} of version {champion.number}"
            note += f" on {of_candidate[key]}"
            if worse > self.tolerance:
                note += f": worse by {worse:.{digits}f}, {self.tolerance:g} is tolerated"
            notes.append(note)
        return Verdict(passed, "; ".join(notes))

    def _evaluations(self, version: Version) -> dict[tuple[str, str], Evaluation]:
        """The version's evaluations that have the metric, by the values that must be equal for a comparison."""
        evaluations = [evaluation for evaluation in evaluations_of(version) if self.metric in evaluation.scores]
        return {(item.key, without_counts(item.scores[self.metric][1])): item for item in evaluations}

    def _missing(self, *known: tuple[Version, dict[tuple[str, str], Evaluation]]) -> str:
        """A message that names the missing evaluations and the commands that create them."""
        lacking = [version for version, evaluations in known if not evaluations]
        latest = (list(evaluations.values())[-1].options for _, evaluations in reversed(known) if evaluations)
        options = next(latest, "--corpus CORPUS")
        reason = f"it is missing for {' and '.join(f'version {version.number}' for version in lacking)}"
        commands = " && ".join(
            f"agggen evaluate models:/{version} {options} -o DIR-{version.number} && "
            f"agggen models record {version} DIR-{version.number}"
            for version in lacking or (version for version, _ in known)
        )
        reason = reason if lacking else "their evaluations differ in records, protocol or signature"
        return f"no common evaluation of {self.metric}: {reason}. Run: {commands}"


@dataclass(frozen=True)
class Verdict:
    passed: bool
    note: str
