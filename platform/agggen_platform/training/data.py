"""The records that a job trains on, their fingerprints, and the name that a run has unless the user gives one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from agggen.bundle import Bundle, fingerprint, load_bundle
from agggen.config import config_hash
from agggen.corpora.rejects import Reject, check_reject_share
from agggen.facts.config import segmenter
from agggen.generation.planner import MAX_TRIPLES
from agggen.records import Record
from agggen.run import RunConfig
from agggen_platform.job_config import JobConfig, result_of
from agggen_platform.local import fingerprint_of, read_split
from agggen_platform.storage.bundles import get_bundle


@dataclass(frozen=True)
class Start:
    """The bundle at ``training.start``."""

    bundle: Bundle
    fingerprint: str


@dataclass(frozen=True)
class Data:
    """Records to train on and to validate on."""

    train: list[Record]
    dev: list[Record]
    fingerprints: dict[str, str]
    """SHA-256 by ``CORPUS/SPLIT``."""
    segmenter: str
    """The fingerprint of the segmenter, or ``corpus`` if the corpus has facts."""
    rejects: dict[str, list[Reject]] = field(default_factory=dict)
    """Records that could not be read, by ``CORPUS/SPLIT``."""
    start: Start | None = None
    """What training starts from; None: random weights."""

    @property
    def sources(self) -> dict[str, str]:
        """The sources that a bundle lists: fingerprints of the splits, and of the bundle that it started from."""
        return self.fingerprints | ({"start": self.start.fingerprint} if self.start else {})

    @property
    def decisive(self) -> dict[str, str]:
        """The fingerprints of all inputs besides the configuration."""
        found = {f"data {name}": value for name, value in self.fingerprints.items()} | {"segmenter": self.segmenter}
        return found | ({"start": self.start.fingerprint} if self.start else {})

    def samples(self, count: int) -> list[Record]:
        """`count` development records spread over the split, always the same."""
        with_texts = [record for record in self.dev if record.references and len(record.triples) <= MAX_TRIPLES]
        return with_texts[:: max(len(with_texts) // max(count, 1), 1)][:count]


def data_of(config: JobConfig) -> Data:
    """Reads the configuration's corpus, and identifies the segmenter of its texts.

    Raises:
        CorpusError: it is missing, or more than ``max_reject_share`` of a split cannot be read; likewise precomputed
            frames.
        AllenNLPError, BundleError: the segmenter cannot be loaded, or there is no bundle at ``training.start``.
        RegistryError, StorageError: the registry or store of that bundle fails.
    """
    corpus, facts = config.corpus, config.facts.segmenter
    splits = {f"{corpus.name}/{split}": read_split(corpus.name, split) for split in (corpus.train, corpus.dev)}
    for name, (records, rejects) in splits.items():
        check_reject_share(len(records), rejects, config.max_reject_share, name)
    return Data(
        splits[f"{corpus.name}/{corpus.train}"][0],
        splits[f"{corpus.name}/{corpus.dev}"][0],
        {name: fingerprint_of(records) for name, (records, _) in splits.items()},
        segmenter(facts).fingerprint if facts else "corpus",
        {name: rejects for name, (_, rejects) in splits.items() if rejects},
        _start(config.training.start) if config.training.start else None,
    )


def _start(address: str) -> Start:
    path = get_bundle(address)
    return Start(load_bundle(path), fingerprint(path))


def default_name(preset: str, config: RunConfig, data: Data) -> str:
    """``PRESET-`` and a hash of all that decides the result, so that the same command continues its run."""
    decisive = json.dumps([config_hash(result_of(config)), *data.decisive.values()])
    return f"{Path(preset).stem}-{hashlib.sha256(decisive.encode()).hexdigest()[:12]}"
