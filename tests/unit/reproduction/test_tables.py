"""What the tables are made of: published numbers, recipes, inference settings and scores that exist."""

from __future__ import annotations

import pytest

from agggen.config import load_config, overrides_of
from agggen.corpora.catalogue import get_corpus
from agggen.errors import ConfigError
from agggen.generation.generator import InferenceConfig
from agggen_platform.job_config import JobConfig
from agggen_platform.reproduction.tables import MODELS, TABLES, Table, check_overrides


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_can_be_trained_evaluated_and_compared(table: Table) -> None:
    for model in MODELS:
        config = load_config(JobConfig, table.recipe.preset, table.recipe.settings(model, 7, start="x/bundle"))
        trains = (bool(config.training.baseline.epochs), bool(config.training.joint.epochs))
        assert trains == ((True, False) if model == "transformer" else (False, True))
        assert (config.training.seed, config.training.start) == (7, "x/bundle" if model == "agggen" else None)
        assert (config.corpus.name, config.corpus.limit) == (table.recipe.corpus, 0)
        for system in table.systems:
            settings = load_config(InferenceConfig, None, [*overrides_of(config.inference), *system.inference])
            assert (settings != config.inference) == bool(system.inference)
    assert table.split in get_corpus(table.corpus).splits
    columns = {column.name for column in table.columns}
    assert all(set(system.scores) <= columns for system in table.published)
    assert all(set(line.scores) == columns for line in table.lines)
    assert {line.system for line in table.lines} == {system.key for system in table.systems}
    assert {system.system for system in table.published} & {line.name for line in table.lines}


@pytest.mark.parametrize(
    "override",
    ["corpus.limit=100", "corpus={name: elements}", "training.seed=4", "training.start=x", "inference.plans=1"],
)
def test_what_the_table_decides_cannot_be_set(override: str) -> None:
    with pytest.raises(ConfigError, match="the table fixes"):
        check_overrides(["training.threads=1", override])
