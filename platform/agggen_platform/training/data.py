"""The records that a job trains on, their fingerprints, and the name that a run has unless the user gives one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from agggen.records import Record
from agggen.run import RunConfig
from agggen_platform.config import config_hash
from agggen_platform.job_config import result_of
from agggen_platform.local import fingerprint_of, records_of


@dataclass(frozen=True)
class Data:
    """Records to train on and to validate on."""

    train: list[Record]
    dev: list[Record]
    fingerprints: dict[str, str]
    """SHA-256 by ``CORPUS/SPLIT``."""

    def samples(self, count: int) -> list[Record]:
        """`count` development records from all over the split, always the same."""
        with_texts = [record for record in self.dev if record.references]
        return with_texts[:: max(len(with_texts) // max(count, 1), 1)][:count]


def data_of(config: RunConfig) -> Data:
    """What the configuration's corpus holds.

    Raises:
        CorpusError: it is not there.
    """
    corpus = config.corpus
    train, dev = records_of(corpus.name, corpus.train), records_of(corpus.name, corpus.dev)
    fingerprints = {
        f"{corpus.name}/{corpus.train}": fingerprint_of(train),
        f"{corpus.name}/{corpus.dev}": fingerprint_of(dev),
    }
    return Data(train, dev, fingerprints)


def default_name(preset: str, config: RunConfig, data: Data) -> str:
    """``PRESET-`` and 12 hex digits of all that decides the result, so that the same command continues its run."""
    decisive = json.dumps([config_hash(result_of(config)), *data.fingerprints.values()])
    return f"{Path(preset).stem}-{hashlib.sha256(decisive.encode()).hexdigest()[:12]}"
