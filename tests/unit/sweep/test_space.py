"""Spaces: valid and invalid descriptions; every named space fits every preset."""

import re
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from agggen.config import load_config, preset_names
from agggen.errors import ConfigError
from agggen_platform.job_config import JobConfig
from agggen_platform.sweep.config import SPACES, SweepConfig, check_space, parse_space, trial_config


def elements(*overrides: str) -> JobConfig:
    return load_config(JobConfig, "elements", overrides)


@pytest.mark.parametrize("name", preset_names(SPACES))
@pytest.mark.parametrize("preset", ["elements", "e2e", "webnlg"])
def test_every_named_space_fits_every_preset(name: str, preset: str) -> None:
    settings = load_config(SweepConfig, name, presets_package=SPACES)
    check_space(parse_space(settings.space), load_config(JobConfig, preset))


def test_each_kind_of_dimension_is_parsed() -> None:
    described = {
        "model.width": {"choice": [64, 128]},
        "model.layers": {"int": [1, 4]},
        "model.dropout": {"uniform": [0, 0.5]},
        "training.joint.learning_rate": {"log_uniform": [1e-4, 1e-2]},
    }
    assert parse_space(described) == {
        "model.width": CategoricalDistribution((64, 128)),
        "model.layers": IntDistribution(1, 4),
        "model.dropout": FloatDistribution(0.0, 0.5),
        "training.joint.learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
    }


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({}, "space is empty"),
        ({"model.width": {"choose": [1]}}, "must be one of {choice: [...]}"),
        ({"model.width": {"choice": []}}, "space, 'model.width', choice []: The `choices` must contain"),
        ({"model.width": {"int": [1, 2.5]}}, "the values must be two whole numbers"),
        ({"model.dropout": {"uniform": [0.5]}}, "space, 'model.dropout', uniform [0.5]: not enough values"),
        ({"model.dropout": {"log_uniform": [0, 1]}}, "`low > 0` must hold for `log=True`"),
        ({"model.predicat_dim": {"choice": [8]}}, "did you mean 'model.predicate_dim'?"),
        ({"cluster.workers": {"choice": [1]}}, "unknown key 'cluster.workers'"),
        ({"model.width": {"choice": [64, "wide"]}}, "'model.width' must be a valid integer, not 'wide'"),
        ({"model.width": {"uniform": [64, 128.5]}}, "'model.width' must be a valid integer, not 64.0"),
        ({"model.width": {"choice": [128, 130]}}, "heads"),
        ({"model": {"choice": [1]}}, "'model' is a section"),
        ({"training.joint.epochs": {"int": [-1, 3]}}, "epochs must be at least 0, not -1"),
    ],
)
def test_an_invalid_space_is_refused(described: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_space(parse_space(described), elements())


def test_a_trials_configuration_changes_only_the_given_values() -> None:
    config = elements("cluster.workers=2", "corpus.limit=9", 'storage.url="s3://b/runs"')
    result = trial_config(config, {"model.predicate_dim": 8, "training.joint.learning_rate": 0.1 + 0.2})
    assert (result.model.predicate_dim, result.training.joint.learning_rate) == (8, 0.1 + 0.2)
    assert (result.cluster, result.storage, result.corpus) == (config.cluster, config.storage, config.corpus)
    assert trial_config(config, {}) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trials=0", "trials must be at least 1"),
        ("metric=dev_loss", "metric must be one of baseline/dev_loss, baseline/dev_seconds, joint/dev_loss"),
        ("metric=joint/bleu", "metric must be one of "),
        ("asha.grace=0", "grace must be at least 1"),
        ("asha.factor=1", "factor at least 2"),
        ("trails=3", "did you mean 'trials'?"),
    ],
)
def test_settings_of_a_sweep_are_checked(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(SweepConfig, "rates", [override], SPACES)
