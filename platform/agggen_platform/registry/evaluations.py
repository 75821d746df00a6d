"""Evaluations of versions, and the metric gate, which compares evaluations of the candidate and the champion.

An evaluation contains the scores of a report of `agggen evaluate`. Two evaluations are comparable if corpus, split,
fingerprint of the records, protocol, and signature of the metric are equal.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from agggen.bundle import Bundle
from agggen.config import flatten
from agggen.errors import ConfigError
from agggen.evaluation import without_counts
from agggen.generation.generator import InferenceConfig
from agggen.verification.critic.critic import Critic
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.registry.store import EVALUATION, Version, registry_errors
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder

_HIGHER_IS_BETTER = {
    "bleu", "chrf", "nist", "meteor", "rouge_l", "cider", "values_whole", "values_lenient", "texts_without_faults",
    "fulfilled", "nmi_max", "nmi_avg", "tau_max", "tau_avg", "ami", "ari", "exact_match", "exact_partition",
    "viterbi_accuracy", "viterbi_precision",
}  # fmt: skip
_SER = (f"{kind}.{part}" for kind in ("ser", "ser_plain") for part in ("add", "miss", "wrong", "ser"))
_LOWER_IS_BETTER = {"ter", "invented", *_SER}


@dataclass(frozen=True)
class Evaluation:
    corpus: str
    split: str
    records: str  # fingerprint of the records
    count: int  # number of records
    partial: bool  # whether only the first records of the split were evaluated
    protocol: str
    at: str  # time of recording, in UTC
    scores: Mapping[str, tuple[float, str]]  # value and signature by ``section/name``

    @property
    def key(self) -> str:
        """The key of the evaluation's tag; an evaluation of the same records and protocol replaces an older one."""
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
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        values["scores"] = {name: (value, signature) for name, (value, signature) in values["scores"].items()}
        return cls(**values)

    def __str__(self) -> str:
        return f"{self.corpus} {self.split} ({self.count:,} records, protocol {self.protocol})"


def evaluations_of(version: Version) -> list[Evaluation]:
    return sorted(map(Evaluation.from_json, version.tagged(EVALUATION).values()), key=lambda evaluation: evaluation.at)


def read_evaluation(report: Path | str, fingerprint: str, bundle: Bundle | Critic, uri: str) -> Evaluation:
    """Reads a report of `agggen evaluate`: a folder, local or in a store, or ``runs:/RUN_ID`` of the MLflow at `uri`.

    Raises ConfigError if the report is missing, if `bundle` (with this `fingerprint`) is a critic, or if the report is
    of another bundle or of other inference settings than the bundle's own.
    """
    if isinstance(bundle, Critic):
        raise ConfigError("a critic writes no texts, so it has no report of `agggen evaluate`; give a model's version")
    address = str(report)
    file = f"{address.rstrip('/')}/report.json"
    in_mlflow = address.startswith("runs:/")
    content = _mlflow_report(address.removeprefix("runs:/"), uri) if in_mlflow else Folder(address).read("report.json")
    if content is None:
        raise ConfigError(f"{address} has no report of `agggen evaluate`: no file {file}")
    try:
        report_json = json.loads(content)
        identity, run = report_json["identity"], report_json["run"]
        reported_fingerprint = identity["bundle"]
        evaluation = Evaluation(
            **{name: identity[name] for name in ("corpus", "split", "records", "protocol")},
            count=int(run["records"]),
            partial=bool(report_json["partial"]),
            at=utc_now(),
            scores={
                f"{section}/{measure['name']}": (float(measure["value"]), str(measure["signature"]))
                for section, table in report_json["scores"].items()
                for measure in table["measures"]
                if measure["value"] is not None and measure["name"] in _HIGHER_IS_BETTER | _LOWER_IS_BETTER
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is not a report of `agggen evaluate` ({type(error).__name__}: {error})") from error
    if reported_fingerprint != fingerprint:
        raise ConfigError(f"the report in {address} is of another bundle: {reported_fingerprint}, not {fingerprint}")
    if difference := _differing_setting(run, bundle.inference):
        raise ConfigError(f"the report in {address} is of other inference settings than the bundle's: {difference}")
    return evaluation


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _mlflow_report(run_id: str, uri: str) -> bytes | None:
    """The content of report.json of an MLflow run; None if the run has no report."""
    from botocore.exceptions import BotoCoreError, ClientError

    with tempfile.TemporaryDirectory(prefix="agggen-report-") as scratch, registry_errors(uri):
        client = mlflow_client(uri)
        try:
            if not any(file.path == "report.json" for file in client.list_artifacts(run_id)):
                return None
            return Path(client.download_artifacts(run_id, "report.json", scratch)).read_bytes()
        except (BotoCoreError, ClientError) as error:  # MLflow does not wrap errors of S3
            raise StorageError(f"the files of MLflow's run {run_id} cannot be read: {error}") from error


def _differing_setting(run: Mapping[str, Any], inference: InferenceConfig) -> str:
    """A message about the first setting that differs, or an empty one. The seed is ignored unless plans are random."""
    is_random = inference.ablation == "random-order" or inference.planner == "sample"
    for name, expected in flatten(inference).items():
        used_value = run.get(f"inference {name}")
        if used_value != expected and (name != "seed" or is_random):
            return f"{name} was {used_value}, the bundle has {expected}"
    return ""


class Verdict(NamedTuple):
    passed: bool
    note: str  # the reason


@dataclass(frozen=True)
class Gate:
    """The metric gate: the candidate must not be worse than the champion on any evaluation that both have."""

    metric: str = "plain/bleu"
    tolerance: float = 0.0  # by how much the candidate may be worse, in points of the metric

    def __post_init__(self) -> None:
        section, _, name = self.metric.rpartition("/")
        if not section or name not in _HIGHER_IS_BETTER | _LOWER_IS_BETTER:
            raise ConfigError(
                f"{self.metric!r} is not a metric for the gate: give a section and a metric of a report, such as "
                "plain/bleu, plain/ter or faithfulness/values_whole, of which higher or lower values are better"
            )
        if not self.tolerance >= 0:
            raise ConfigError(f"the tolerance must be a number of 0 or more, not {self.tolerance}")

    def judge(self, candidate: Version, champion: Version | None) -> Verdict:
        if champion is None:
            return Verdict(True, "nothing to compare with: no version had the alias")
        candidate_evaluations, champion_evaluations = self._evaluations(candidate), self._evaluations(champion)
        shared = candidate_evaluations.keys() & champion_evaluations.keys()
        if not shared:
            evaluated = (candidate, candidate_evaluations), (champion, champion_evaluations)
            return Verdict(False, self._missing_message(*evaluated))
        notes, passed = [], True
        for key in sorted(shared):
            evaluation = candidate_evaluations[key]
            value, champion_value = (entry.scores[self.metric][0] for entry in (evaluation, champion_evaluations[key]))
            difference = champion_value - value
            deficit = difference if self.metric.rpartition("/")[2] in _HIGHER_IS_BETTER else -difference
            passed &= deficit <= self.tolerance
            digits = 2 if abs(deficit) >= 0.005 or not deficit else 6  # more for a small difference
            numbers = f"{value:.{digits}f} against {champion_value:.{digits}f} of version {champion.number}"
            tolerated = f": worse by {deficit:.{digits}f}, {self.tolerance:g} is tolerated"
            notes.append(f"{self.metric} {numbers} on {evaluation}{tolerated if deficit > self.tolerance else ''}")
        return Verdict(passed, "; ".join(notes))

    def _evaluations(self, version: Version) -> dict[tuple[str, str], Evaluation]:
        """The version's evaluations with this metric, by key and signature, which must be equal for a comparison."""
        evaluations = [evaluation for evaluation in evaluations_of(version) if self.metric in evaluation.scores]
        return {(entry.key, without_counts(entry.scores[self.metric][1])): entry for entry in evaluations}

    def _missing_message(self, *evaluated: tuple[Version, dict[tuple[str, str], Evaluation]]) -> str:
        """A message about missing evaluations, with the commands that create them."""
        unevaluated = [version for version, evaluations in evaluated if not evaluations]
        reason = "their evaluations differ in records, protocol or signature"
        if unevaluated:
            reason = f"it is missing for {' and '.join(f'version {version.number}' for version in unevaluated)}"
        latest = (list(evaluations.values())[-1].options for _, evaluations in reversed(evaluated) if evaluations)
        options = next(latest, "--corpus CORPUS")
        commands = " && ".join(
            f"agggen evaluate models:/{version} {options} -o DIR-{version.number} && "
            f"agggen models record {version} DIR-{version.number}"
            for version in unevaluated or (version for version, _ in evaluated)
        )
        return f"no common evaluation of {self.metric}: {reason}. Run: {commands}"
