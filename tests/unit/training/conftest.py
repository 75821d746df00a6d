"""The configuration of a job on the toy corpus, shared by all tests of training."""

import pytest

from agggen_platform.job_config import JobConfig
from tests.unit.training.toy import config_of, write_corpus


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> JobConfig:
    return config_of(write_corpus(tmp_path_factory.mktemp("toy") / "toy"))
