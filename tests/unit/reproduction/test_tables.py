"""Tables: recipes, run records on disk and shipped ones, rows of comparable records, and the command."""

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
from agggen_platform.reproduction.records import Score, compare, notes_of, records_of, rows_of, write_record
from agggen_platform.reproduction.tables import MODELS, TABLES, Table, check_overrides
from agggen_platform.reproduction.work import inference_of
from tests.command import Run, check_refused
from tests.unit.reproduction.examples import example_table, toy_record


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
    columns = set(table.columns)
    assert all(set(system.scores) <= columns for system in table.published)
    assert all(set(line.scores) == columns for line in table.system_rows)
    assert {line.system for line in table.system_rows} == {system.key for system in table.systems}
    ours_too = {system.name for system in table.published} & {line.name for line in table.system_rows}
    assert ours_too or table.name in ("webnlg-3.0", "webnlg-unseen", "elements")  # not in the paper


@pytest.mark.parametrize(
    "override",
    ["corpus.limit=100", "corpus={name: elements}", "training.seed=4", "training.start=x", "inference.plans=1"],
)
def test_settings_fixed_by_the_table_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="is set by the table"):
        check_overrides(["training.threads=1", override])


TABLE = example_table()


def test_records_are_read_back_as_written(tmp_path: Path) -> None:
    assert records_of(TABLE, tmp_path) == []
    records = [toy_record("agggen", 2), toy_record("agggen", 10, chrf="no Java"), toy_record("transformer", 1)]
    for record in records:
        path = write_record(tmp_path, TABLE, record)
        assert path == tmp_path / "records" / "toy" / f"{record.system}-{record.seed}.json"
    (path.parent / ".agggen-2.json.1234abcd.tmp").touch()
    assert records_of(TABLE, tmp_path) == [records[2], records[0], records[1]], "not sorted by system, then seed"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"agggen-1\.json: invalid run record: JSON"),
        ("{}", r"agggen-1\.json: invalid run record: system"),
        ({"seed": "one"}, r"agggen-1\.json: invalid run record: seed"),
        ({"colour": "red"}, r"agggen-1\.json: invalid run record: colour"),
        ({"system": "other"}, r"agggen-1\.json: table toy has no system other; it has transformer, agggen"),
    ],
)
def test_an_invalid_record_is_refused_by_name(tmp_path: Path, content: str | dict[str, object], message: str) -> None:
    path = write_record(tmp_path, TABLE, toy_record())
    path.write_text(content if isinstance(content, str) else json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(ConfigError, match=message):
        records_of(TABLE, tmp_path)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_shipped_records_match_the_recipe_and_settings_of_the_table(table: Table) -> None:
    records = records_of(table)
    compare(table, records)
    assert records or table.name == "e2e-cleaned"
    for record in records:
        system = next(system for system in table.systems if system.key == record.system)
        assert record.recipe == table.recipe.result_settings()
        assert record.inference(table) == table.score_settings(flatten(inference_of(table.recipe, system)))
        assert record.inputs == table.inputs


def test_our_rows_follow_the_published_row_of_the_same_name_or_come_last() -> None:
    rows = rows_of(compare(TABLE, [toy_record("transformer"), toy_record("agggen"), toy_record("agggen-od")]))
    assert [row[0] for row in rows] == ["system", "Elsewhere", "AggGen", "AggGen", "Transformer", "AggGen -OD"]
    assert [row[-1] for row in rows] == ["from", "[1]", "[2]", "ours, n=1", "ours, n=1", "ours, n=1"]


@pytest.mark.parametrize(
    ("values", "cell"),
    [([50.0], "50.00"), ([50.0, 51.0], "50.50 (50.00 to 51.00)"), ([50.0, 51.0, 53.0], "51.33 ± 1.53")],
)
def test_a_cell_has_the_mean_and_the_spread_over_seeds(values: list[float], cell: str) -> None:
    row = rows_of(compare(TABLE, [toy_record(seed=seed, bleu=value) for seed, value in enumerate(values)]))[3]
    assert (row[0], row[1], row[-1]) == ("AggGen", cell, f"ours, n={len(values)}")


def test_notes_have_the_sources_the_recipe_and_the_signatures() -> None:
    without, *_ = notes = list(notes_of(compare(TABLE, []), "in DIR"))
    assert without == "[1] Somebody 2020." and notes[1] == "[2] The paper, table 1; mean of 3."
    assert "agggen reproduce toy --runs runs --seeds 1,2,3" in notes[-1]
    text = "\n".join(notes_of(compare(TABLE, [toy_record(), toy_record("transformer")]), "in DIR"))
    assert "plain/bleu: bleu|v1" in text and "trained by tiny." in text and "(3 records)" in text


def test_a_mean_needs_all_seeds_and_missing_scores_are_listed() -> None:
    comparison = compare(TABLE, [toy_record(seed=1), toy_record(seed=2, chrf="no Java")])
    assert rows_of(comparison)[3][1:3] == ["50.00 (50.00 to 50.00)", "-"]
    assert comparison.missing == ("chrf is missing for agggen-2: no Java",)


RECORD = toy_record(seed=3)


@pytest.mark.parametrize(
    ("difference", "change"),
    [
        ("corpus fingerprint", {"corpus_fingerprint": "other"}),
        ("protocol", {"protocol": "e2e"}),
        ("recipe", {"recipe": ("tiny", "model.width=9")}),
        ("inference setting verify", {"settings": {**RECORD.settings, "verify": "off"}}),
        ("inference setting beam.beam", {"settings": {**RECORD.settings, "beam.beam": 99}}),
        ("signature of plain/bleu", {"scores": {**RECORD.scores, "plain/bleu": Score(50.0, signature="bleu|v2")}}),
        (None, {"inputs": 2}),
    ],
)
def test_records_that_are_not_comparable_are_refused(difference: str | None, change: dict[str, Any]) -> None:
    records = [toy_record(seed=1), toy_record(seed=2), replace(RECORD, **change)]
    message = f"agggen-1 and agggen-3 are not comparable: the {difference} is"
    with pytest.raises(ConfigError, match=message if difference else "agggen-3 is for 2 test records, .* are for 3;"):
        compare(TABLE, records)


def test_systems_may_differ_in_settings_and_missing_settings_have_their_defaults() -> None:
    older = {key: value for key, value in RECORD.settings.items() if key != "group_reward"}
    plain = replace(toy_record("transformer"), settings={**RECORD.settings, "ablation": "plain"})
    compare(TABLE, [toy_record(), replace(RECORD, settings=older), plain])


def test_scores_of_plans_depend_only_on_settings_of_planning() -> None:
    first = replace(RECORD, inputs=100, scores={"plans/nmi_avg": Score(0.65)})
    compare(TABLES["plans"], [first, replace(first, seed=4, settings={**first.settings, "verify": "off"})])
    with pytest.raises(ConfigError, match="inference setting level"):
        compare(TABLES["plans"], [first, replace(first, seed=4, settings={**first.settings, "level": 1})])


def test_signatures_may_differ_in_their_counts() -> None:
    scores = (Score(95.0 + seed, None, f"s|said:{seed}") for seed in (1, 2))
    runs = [replace(RECORD, scores={"faithfulness/values_whole": score}) for score in scores]
    comparison = compare(example_table(extra=("values_whole",)), runs)
    assert rows_of(comparison)[3][3] == "96.50 (96.00 to 97.00)"
    assert any(note.startswith("values_whole: ") and "(strict)" in note for note in notes_of(comparison, "in DIR"))


# --- agggen reproduce ------------------------------------------------------------------------------------------------


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "toy", example_table("elements", "elements"))


def cells(out: str) -> list[list[str]]:
    return [line.split("\t") for line in out.splitlines() if "\t" in line]


@pytest.mark.usefixtures("toy")
def test_tables_and_their_records_are_listed_and_shown(run: Run, tmp_path: Path) -> None:
    code, out, err = run("reproduce")
    assert (code, [row[0] for row in cells(out)[1:]]) == (0, list(TABLES))
    assert "that ship with agggen" in err
    rows = {row[0]: row for row in cells(out)}
    assert rows["plans"][-1] == "agggen 1, 2, 3" and rows["toy"][-1] == "none"
    assert rows["e2e-cross"][2].startswith("corpora e2e, e2e-cleaned; ")
    for record in (toy_record("transformer", 1), toy_record("agggen", 1), toy_record("agggen", 2)):
        write_record(tmp_path / "runs", TABLES["toy"], record)
    _, out, _ = run("reproduce", "--runs", "runs")
    assert cells(out)[-1][-1] == "transformer 1; agggen 1, 2"
    _, out, _ = run("reproduce", "toy", "--runs", "runs")
    assert cells(out)[3] == ["AggGen", "50.00 (50.00 to 50.00)", "60.00 (60.00 to 60.00)", "ours, n=2"]
    assert "plain/bleu: bleu|v1" in out and f"in {Path('runs') / 'records'}" in out


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("webnlgg",), "no table is called 'webnlgg'; did you mean webnlg"),
        (("toy", "--seeds", "1"), "--seeds needs --runs DIR"),
        (("toy", "--fresh"), "--fresh and settings need --runs DIR and --seeds"),
        (("toy", "--seeds", "1,1", "--runs", "runs"), "--seeds takes different whole numbers, such as 1,2,3, not '1"),
        (("toy", "--seeds", "1,x", "--runs", "runs"), "not '1,x'"),
        (("toy", "--seeds", "1", "--runs", "runs", "corpus.limit=9"), "corpus.limit is set by the table"),
        (("toy", "--runs", "s3://bucket/runs"), "s3://bucket/runs is not a folder of this machine"),
    ],
)
def test_invalid_options_are_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    check_refused(run("reproduce", *arguments), 2, message)
    assert not Path("runs").exists()
