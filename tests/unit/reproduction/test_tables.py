"""What the tables are made of: published numbers from their one place, recipes and ways of writing that exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agggen.corpora.catalogue import get_corpus
from agggen.errors import ConfigError
from agggen.evaluation.published import ALIGNMENT, BOARDS, PLANNING
from agggen.generation.generator import InferenceConfig
from agggen_platform.config import load_config, overrides_of
from agggen_platform.job_config import JobConfig
from agggen_platform.reproduction.tables import MODELS, TABLES, Table, check_overrides, table_called

EVERY = pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))


@pytest.mark.parametrize(
    ("name", "trained_on", "corpus", "split"),
    [
        ("webnlg", "webnlg", "webnlg", "test-seen"),
        ("webnlg-long", "webnlg", "webnlg", "test-seen"),
        ("e2e", "e2e", "e2e", "test"),
        ("e2e-cross", "e2e", "e2e-cleaned", "test"),
        ("e2e-cleaned", "e2e-cleaned", "e2e-cleaned", "test"),
    ],
)
def test_published_rows_are_those_of_the_board(name: str, trained_on: str, corpus: str, split: str) -> None:
    table = TABLES[name]
    (board,) = (b for b in BOARDS if (b.corpus, b.split, b.trained_on) == (corpus, split, trained_on))
    assert table.published is board.systems
    assert (table.recipe.corpus, table.corpus, table.split) == (trained_on, corpus, split)
    assert table.inputs == board.inputs - board.unusable
    assert {score for system in board.systems for score in system.scores} <= {column.name for column in table.columns}
    theirs = {system.system for system in board.systems}
    assert {"Transformer", "AggGen", "AggGen -OD", "AggGen -AG"} <= theirs & {line.name for line in table.lines}


@pytest.mark.parametrize(("name", "rows"), [("plans", PLANNING), ("alignment", ALIGNMENT)])
def test_rows_about_plans_are_the_published_ones(name: str, rows: object) -> None:
    table = TABLES[name]
    assert table.published is rows
    assert {line.name for line in table.lines} == {system.system for system in table.published}, "each has one of ours"
    columns = {column.name for column in table.columns}
    assert all(set(system.scores) <= columns for system in table.published)


@EVERY
def test_a_table_can_be_trained_and_written(table: Table) -> None:
    for model in MODELS:
        config = load_config(JobConfig, table.recipe.preset, table.recipe.settings(model, 7, start="x/bundle"))
        trains = (bool(config.training.baseline.epochs), bool(config.training.joint.epochs))
        assert trains == ((True, False) if model == "transformer" else (False, True))
        assert (config.training.seed, config.training.start) == (7, "x/bundle" if model == "agggen" else None)
        assert (config.corpus.name, config.corpus.limit) == (table.recipe.corpus, 0)
        for system in table.systems:
            written = load_config(InferenceConfig, None, [*overrides_of(config.inference), *system.inference])
            assert (written != config.inference) == bool(system.inference)
    assert table.split in get_corpus(table.corpus).splits
    assert {line.system for line in table.lines} == {system.key for system in table.systems}
    assert all(set(line.scores) == {column.name for column in table.columns} for line in table.lines)


def test_an_unknown_table_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no table is called 'webnlgg'; did you mean webnlg"):
        table_called("webnlgg")


@pytest.mark.parametrize(
    "override",
    ["corpus.limit=100", "corpus={name: elements}", "training.seed=4", "training.start=x", "inference.plans=1"],
)
def test_what_the_table_decides_cannot_be_set(override: str) -> None:
    with pytest.raises(ConfigError, match="the table itself decides"):
        check_overrides(["training.threads=1", override])


def test_the_stage_that_a_model_lacks_stays_away_whatever_is_set() -> None:
    recipe = replace(TABLES["webnlg"].recipe, overrides=("training.joint.epochs=3",))
    config = load_config(JobConfig, recipe.preset, recipe.settings("transformer", 1, ["training.joint.epochs=9"]))
    assert config.training.joint.epochs == 0
