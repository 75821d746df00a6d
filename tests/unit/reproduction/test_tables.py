"""The tables: what they are made of, run records on disk and those that ship, and rows of comparable records."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agggen.config import flatten, load_config, overrides_of
from agggen.corpora.catalogue import get_corpus
from agggen.errors import ConfigError
from agggen.generation.generator import InferenceConfig
from agggen_platform.job_config import JobConfig
from agggen_platform.reproduction.comparison import compare, notes_of, rows_of
from agggen_platform.reproduction.records import Score, records_of, write_record
from agggen_platform.reproduction.tables import MODELS, TABLES, Table, check_overrides
from agggen_platform.reproduction.work import inference_of
from tests.unit.reproduction.made import made_record, made_table


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
    ours_too = {system.system for system in table.published} & {line.name for line in table.lines}
    assert ours_too or table.name in ("webnlg-unseen", "elements")  # the paper has no numbers of them


@pytest.mark.parametrize(
    "override",
    ["corpus.limit=100", "corpus={name: elements}", "training.seed=4", "training.start=x", "inference.plans=1"],
)
def test_what_the_table_decides_cannot_be_set(override: str) -> None:
    with pytest.raises(ConfigError, match="the table fixes"):
        check_overrides(["training.threads=1", override])


TABLE = made_table()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert records_of(TABLE, tmp_path) == []
    records = [made_record("agggen", 2), made_record("agggen", 10, chrf="no Java"), made_record("transformer", 1)]
    for record in records:
        path = write_record(tmp_path, TABLE, record)
        assert path == tmp_path / "records" / "toy" / f"{record.system}-{record.seed}.json"
    (path.parent / ".agggen-2.json.1234abcd.tmp").touch()
    assert records_of(TABLE, tmp_path) == [records[2], records[0], records[1]], "by system, then seed"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"agggen-1\.json: invalid run record: JSON"),
        ("{}", r"agggen-1\.json: invalid run record: system"),
        ({"seed": "one"}, r"agggen-1\.json: invalid run record: seed"),
        ({"colour": "red"}, r"agggen-1\.json: invalid run record: colour"),
        ({"system": "other"}, r"agggen-1\.json: table toy has no system other, only transformer, agggen"),
    ],
)
def test_an_invalid_record_is_refused_by_name(tmp_path: Path, content: str | dict[str, object], message: str) -> None:
    path = write_record(tmp_path, TABLE, made_record())
    path.write_text(content if isinstance(content, str) else json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(ConfigError, match=message):
        records_of(TABLE, tmp_path)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_shipped_records_are_of_what_the_table_says(table: Table) -> None:
    records = records_of(table)
    compare(table, records)
    assert records or table.name == "e2e-cleaned"
    for record in records:
        system = next(system for system in table.systems if system.key == record.system)
        assert record.recipe == table.recipe.decisive()
        assert record.inference(table) == table.relevant(flatten(inference_of(table.recipe, system)))
        assert record.inputs == table.inputs


def test_ours_stand_below_the_published_row_of_the_same_name_and_the_others_last() -> None:
    rows = rows_of(compare(TABLE, [made_record("transformer"), made_record("agggen"), made_record("agggen-od")]))
    assert [(row[0], row[-1]) for row in rows] == [
        ("system", "from"),
        ("Elsewhere", "[1]"),
        ("AggGen", "[2]"),
        ("AggGen", "ours, n=1"),
        ("Transformer", "ours, n=1"),
        ("AggGen -OD", "ours, n=1"),
    ]


@pytest.mark.parametrize(
    ("values", "cell"),
    [([50.0], "50.00"), ([50.0, 51.0], "50.50 (50.00 to 51.00)"), ([50.0, 51.0, 53.0], "51.33 ± 1.53")],
)
def test_a_cell_has_the_mean_and_the_spread_over_seeds(values: list[float], cell: str) -> None:
    comparison = compare(TABLE, [made_record(seed=seed, bleu=value) for seed, value in enumerate(values)])
    assert rows_of(comparison)[3] == ["AggGen", cell, rows_of(comparison)[3][2], f"ours, n={len(values)}"]


def test_notes_have_the_sources_the_recipe_and_the_signatures() -> None:
    without, *_ = notes = list(notes_of(compare(TABLE, []), "in DIR"))
    assert without == "[1] Somebody 2020." and notes[1] == "[2] The paper, table 1; mean of 3."
    assert "agggen reproduce toy --runs runs --seeds 1,2,3" in notes[-1]
    text = "\n".join(notes_of(compare(TABLE, [made_record(), made_record("transformer")]), "in DIR"))
    assert "plain/bleu: bleu|v1" in text and "trained by tiny." in text and "(3 records)" in text


def test_a_row_shows_no_mean_of_a_part_of_its_seeds_and_says_what_is_missing() -> None:
    comparison = compare(TABLE, [made_record(seed=1), made_record(seed=2, chrf="no Java")])
    assert rows_of(comparison)[3][1:3] == ["50.00 (50.00 to 50.00)", "-"]
    assert comparison.missing == ("chrf has no number for agggen-2: no Java",)


RECORD = made_record(seed=3)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("corpus fingerprint", {"corpus_fingerprint": "other"}),
        ("protocol", {"protocol": "e2e"}),
        ("recipe", {"recipe": ("tiny", "model.width=9")}),
        ("inference setting verify", {"settings": {**RECORD.settings, "verify": "off"}}),
        ("inference setting beam.beam", {"settings": {**RECORD.settings, "beam.beam": 99}}),
        ("signature of plain/bleu", {"scores": {**RECORD.scores, "plain/bleu": Score(50.0, signature="bleu|v2")}}),
    ],
)
def test_records_that_do_not_compare_are_refused_by_name(what: str, change: dict[str, Any]) -> None:
    records = [made_record(seed=1), made_record(seed=2), replace(RECORD, **change)]
    with pytest.raises(ConfigError, match=f"agggen-1 and agggen-3 are not comparable: the {what} is"):
        compare(TABLE, records)


def test_systems_may_write_differently_and_new_settings_have_their_defaults() -> None:
    older = {key: value for key, value in RECORD.settings.items() if key != "group_reward"}
    plain = replace(made_record("transformer"), settings={**RECORD.settings, "ablation": "plain"})
    compare(TABLE, [made_record(), replace(RECORD, settings=older), plain])


def test_a_part_of_the_test_set_does_not_stand_beside_published_numbers() -> None:
    with pytest.raises(ConfigError, match=r"agggen-3 is for 2 test records, but the published .* are for 3;"):
        compare(TABLE, [replace(RECORD, inputs=2)])


def test_scores_of_plans_do_not_depend_on_how_texts_were_written() -> None:
    first, second = (
        replace(made_record(seed=seed), inputs=100, scores={"plans/nmi_avg": Score(0.65)}) for seed in (1, 2)
    )
    compare(TABLES["plans"], [first, replace(second, settings={**second.settings, "verify": "off"})])
    with pytest.raises(ConfigError, match="inference setting level"):
        compare(TABLES["plans"], [first, replace(second, settings={**second.settings, "level": 1})])


def test_signatures_may_differ_in_what_was_found_in_the_texts() -> None:
    table = made_table(extra=("values_whole",))
    runs = [
        replace(
            made_record(seed=seed), scores={"faithfulness/values_whole": Score(95.0 + seed, None, f"s|said:{seed}")}
        )
        for seed in (1, 2)
    ]
    comparison = compare(table, runs)
    assert rows_of(comparison)[3][3] == "96.50 (96.00 to 97.00)"
    assert any(note.startswith("values_whole: ") and "(strict)" in note for note in notes_of(comparison, "in DIR"))
