"""The records that a job trains on, and the name that a run has unless the user gives one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from agggen.config import config_hash
from agggen.datasets import Dataset
from agggen.run import RunConfig
from agggen.training.data import Data, training_data
from agggen_platform.job_config import JobConfig, result_of


def data_of(config: JobConfig, dataset: Dataset | None = None) -> Data:
    """What `config` trains on; see `training_data`."""
    return training_data(config, config.max_reject_share, dataset)


def default_name(preset: str, config: RunConfig, data: Data) -> str:
    """``PRESET-`` and a hash of all that decides the result, so that the same command continues its run."""
    decisive = json.dumps([config_hash(result_of(config)), *data.decisive.values()])
    return f"{Path(preset).stem}-{hashlib.sha256(decisive.encode()).hexdigest()[:12]}"
