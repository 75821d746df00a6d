"""Spaces: what they take, what they refuse, and that every named one fits the presets."""

from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from agggen.config import load_config, preset_names
from agggen.errors import ConfigError
from agggen_platform.job_config import JobConfig
from agggen_platform.sweep.config import SPACES, SweepConfig
from agggen_platform.sweep.space import check_space, parse_space, trial_config


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
        ({"model.width": {"int": [1, 2.5]}}, "takes two whole numbers"),
        ({"model.dropout": {"uniform": [0.5]}}, "space, 'model.dropout', uniform [0.5]: not enough values"),
        ({"model.dropout": {"log_uniform": [0, 1]}}, "`low > 0` must hold for `log=True`"),
    ],
)
def test_an_invalid_dimension_is_refused(described: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_space(described)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"model.predicat_dim": {"choice": [8]}}, "did you mean 'model.predicate_dim'?"),
        ({"cluster.workers": {"choice": [1]}}, "unknown key 'cluster.workers'"),
        ({"model.width": {"choice": [64, "wide"]}}, "'model.width' must be a valid integer, not 'wide'"),
        ({"model.width": {"uniform": [64, 128.5]}}, "'model.width' must be a valid integer, not 64.0"),
        ({"model.width": {"choice": [128, 130]}}, "heads"),
        ({"model": {"choice": [1]}}, "'model' is a section"),
        ({"training.joint.epochs": {"int": [-1, 3]}}, "epochs must be at least 0, not -1"),
    ],
)
def test_a_space_that_does_not_fit_the_configuration_is_refused(described: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_space(parse_space(described), elements())
    assert message in str(refused.value)


def test_a_key_that_the_user_sets_as_well_is_refused() -> None:
    space = parse_space({"model.width": {"choice": [64, 128]}})
    with pytest.raises(ConfigError, match=r"'model.width' is set by an override and searched by the space"):
        check_space(space, elements(), ["model.heads=4", "model.width=32"])


def test_a_trials_configuration_has_the_values_and_all_else_as_it_was() -> None:
    config = elements("cluster.workers=2", "corpus.limit=9", 'storage.url="s3://b/runs"')
    result = trial_config(config, {"model.predicate_dim": 8, "training.joint.learning_rate": 0.1 + 0.2})
    assert (result.model.predicate_dim, result.training.joint.learning_rate) == (8, 0.1 + 0.2)
    assert (result.cluster, result.storage, result.corpus) == (config.cluster, config.storage, config.corpus)
    assert trial_config(config, {}) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trials=0", "trials must be at least 1"),
        (
            "metric=dev_loss",
            "metric must be one of baseline/dev_loss, baseline/dev_seconds, joint/dev_loss, joint/dev_s",
        ),
        ("metric=joint/bleu", "metric must be one of "),
        ("asha.grace=0", "grace must be at least 1"),
        ("asha.factor=1", "factor at least 2"),
        ("trails=3", "did you mean 'trials'?"),
    ],
)
def test_settings_of_a_sweep_are_checked(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(SweepConfig, "rates", [override], SPACES)
    assert message in str(refused.value)
