"""The Python API: training, generation, checks, evaluation, display of results."""

import errno
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import agggen
from agggen.config import load_config, preset_names
from agggen.display import Results, group_labels, html
from agggen.errors import AggGenError, BundleError, ConfigError, CorpusError, PlanError, RecordError, StoppedError
from agggen.run import RunConfig
from agggen.training.choice import config_for, preset_for
from agggen.training.events import TrainingEvent
from tests.bare import python_without
from tests.unit.toy_training import Log
from tests.unit.training import toy

ABSENT = {"ray", "mlflow", "optuna", "boto3", "fastapi", "typer", "rich", "agggen_platform"}
ROWS: list[dict[str, Any]] = [
    {"id": r.id, "name": r.id, "food": r.triples[0].object, "area": "city", "text": r.references[0].text}
    for r in toy.RECORDS
]
SETTINGS = toy.SETTINGS | {"inference": {"plans": 2, "beam": {"beam": 2, "max_fact_tokens": 6}}}
DATA = agggen.load_dataset(ROWS, name="toy")
RECORD = DATA.test[0]


def train(output: Path, data: Any = DATA, **changes: Any) -> agggen.Model:
    return agggen.train(data, output=output, **SETTINGS | {"progress": False} | changes)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> agggen.Model:
    return train(tmp_path_factory.mktemp("runs") / "toy")


# --- the package ---


def test_importing_the_package_imports_nothing_heavy_and_no_module_shadows_a_public_name(tmp_path: Path) -> None:
    """For example, a module `agggen.score` would hide the function `agggen.score`."""
    code = """
import agggen, sys
print({"torch", "numpy", "pyarrow", "pydantic", "yaml", "scipy"} & {*sys.modules})
import agggen.api, agggen.evaluation, agggen.training
print({name for name in agggen.__all__ if type(getattr(agggen, name)).__name__ == "module"})
"""
    assert python_without((), code, tmp_path).stdout.split("\n") == ["set()", "set()", ""]


def test_all_public_names_exist_and_are_documented() -> None:
    assert set(agggen.__all__) <= set(dir(agggen))
    for name in agggen.__all__:
        assert getattr(agggen, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = agggen.trian  # type: ignore[attr-defined]


def test_the_library_works_without_the_platform(tmp_path: Path) -> None:
    code = f"""
import agggen
data = agggen.load_dataset({ROWS!r})
model = agggen.train(data, output="run", **{SETTINGS!r})
print(model.generate(data.test[0]).text)
agggen.evaluate(model, data.test).report("report")
model.check(data.test[0], "A text."), model.align(data.test[0], "A text."), model.plan(data.test[0])
try:
    agggen.load_model("models:/x@y")
except ImportError as error:
    print(error)
"""
    done = python_without(ABSENT, code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No module named 'agggen_platform" in done.stdout
    assert "joint model: update" in done.stderr, "progress must be shown by default"
    assert (tmp_path / "report" / "report.html").is_file() and (tmp_path / "run" / "bundle").is_dir()


# --- training ---


def test_a_finished_run_is_returned_and_not_trained_again(model: agggen.Model) -> None:
    log = Log()
    repeated = train(model.path.parent, callbacks=[log])
    assert not log.events and repeated.predicates == model.predicates == ("area", "food")
    assert repeated.generate(RECORD) == model.generate(RECORD)
    assert agggen.load_model(model.path.parent).path == agggen.load_model(str(model.path)).path == model.path


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The folder of a stopped run."""
    with pytest.raises(StoppedError):
        train(tmp_path, callbacks=[Log(stop_at=1)])
    return tmp_path


def test_an_output_of_another_run_is_refused(model: agggen.Model, stopped: Path) -> None:
    for output in (model.path.parent, stopped):
        with pytest.raises(ConfigError, match=r"training\.seed was 1 and is 2"):
            train(output, training=SETTINGS["training"] | {"seed": 2})
        with pytest.raises(ConfigError, match=r"data toy/(dev|train) was"):
            train(output, agggen.load_dataset(ROWS[1:], name="toy"))


def test_an_output_whose_bundle_is_no_model_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    with pytest.raises(BundleError, match=r"bundle is not a bundle"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_run_continued_on_a_full_disk_keeps_its_settings(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: `run.json` was written again and remained empty."""
    settings, write_text = (stopped / "run.json").read_text(encoding="utf-8"), Path.write_text

    def on_full_disk(path: Path, *args: Any, **options: Any) -> int:
        if path.name == "run.json":
            path.open("w").close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, *args, **options)

    monkeypatch.setattr(Path, "write_text", on_full_disk)
    with pytest.raises(StoppedError):
        train(stopped, callbacks=[Log(stop_at=2)])
    assert (stopped / "run.json").read_text(encoding="utf-8") == settings


def test_training_does_not_read_the_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(tmp_path))
    (tmp_path / "e2e").mkdir()
    rows = [f'"name[{row["name"]}], food[{row["food"]}], area[city]","{row["text"]}"' for row in ROWS]
    for name in ("trainset.csv", "devset.csv"):
        (tmp_path / "e2e" / name).write_text("\n".join(("mr,ref", *rows, "")), encoding="utf-8")
    model = train(tmp_path / "run", data="e2e")
    assert model.predicates == ("area", "food")
    adapted = agggen.adapt(model, "e2e", tmp_path / "adapted", progress=False)
    assert adapted.predicates == model.predicates
    with pytest.raises(CorpusError, match="e2e test is not available"):
        agggen.load_dataset("e2e")


def test_rejects_are_written_beside_the_model_and_a_progress_function_gets_events(tmp_path: Path) -> None:
    rows = [*ROWS, {"id": "bad", "food": b"x"}, {"id": "dots", "name": "X", "food": "Y", "text": "X Y."}]
    with pytest.raises(CorpusError, match="1 of 12 records were rejected"):
        train(tmp_path / "strict", data=rows)
    events: list[TrainingEvent] = []
    train(tmp_path / "run", data=rows, max_reject_share=0.2, progress=events.append)
    assert {event.stage for event in events if event.kind == "evaluation"} == {"baseline", "joint"}
    (line,) = (tmp_path / "run" / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["reason"].startswith("a cell has the type bytes")


# --- presets ---


@pytest.mark.parametrize(("texts", "preset"), [(3, "tiny"), (499, "tiny"), (500, "small"), (10_000, "medium")])
def test_the_preset_follows_the_number_of_texts(texts: int, preset: str) -> None:
    record = agggen.Record.of({"id": "1", "triples": [["a", "b", "c"]], "references": ["a c."] * texts})
    data = agggen.Dataset("d", {"train": [record], "dev": [record]})
    assert preset_for(data) == preset and preset in preset_names()
    assert config_for(RunConfig, data).training == load_config(RunConfig, preset).training


def test_facts_of_the_corpus_are_used_if_all_texts_have_them() -> None:
    elements = agggen.load_dataset("elements")
    for preset in ("auto", "tiny", "medium"):
        assert config_for(RunConfig, elements, preset).facts.source == "corpus"
    assert config_for(RunConfig, elements, overrides=["facts.source=clauses"]).facts.source == "clauses"
    assert config_for(RunConfig, elements, "webnlg").facts.source == "embedded", "set by the preset"
    assert config_for(RunConfig, DATA).facts.source == "embedded"
    assert config_for(RunConfig, DATA).corpus.name == "toy"
    assert config_for(RunConfig, DATA, "elements", ["training.seed=5"]).corpus.name == "toy"


# --- plans and texts ---


def test_one_record_gives_one_result_and_several_give_a_list(model: agggen.Model) -> None:
    """Records with equal ids have separate results."""
    one, several = model.generate(RECORD), model.generate(DATA.train)
    assert isinstance(one.text, str) and one.id == RECORD.id
    assert [text.id for text in several] == [record.id for record in DATA.train]
    as_mapping = model.generate({"id": RECORD.id, "name": RECORD.id, "food": "Thai", "area": "city"})
    assert as_mapping.id == RECORD.id
    assert len(model.plan(RECORD, k=2)) == 2
    assert [len(plans) for plans in model.plan(DATA.train[:3], k=2)] == [2, 2, 2]
    assert model.check(DATA.train[:2], ["a", "b"])[1].text == "b"
    assert "".join(model.align(RECORD, "It is in the city. It is here.").facts) == "It is in the city. It is here."
    assert len(model.align(DATA.train[:2], ["It is.", "It was."])) == 2
    other = agggen.Record.of({"id": RECORD.id, "triples": [["Aromi", "food", "Thai"]]})
    assert [len(plans[0].plan.predicates) for plans in model.plan([RECORD, other, RECORD], k=1)] == [2, 1, 2]
    for method in (model.generate, model.plan):
        with pytest.raises(RecordError, match="the row has no value besides 'name'"):
            method({"name": "Aromi"})


def test_plans_and_settings_are_followed(model: agggen.Model) -> None:
    assert str(model.generate(RECORD, plan="[area] [food]").plan) == "[area] [food]"
    both = model.generate(DATA.train[:2], plan=["[food area]", agggen.Plan.parse("[area] [food]")])
    assert [str(text.plan) for text in both] == ["[food area]", "[area] [food]"]
    assert [str(text.plan) for text in model.generate(DATA.train[:2], plan="[area food]")] == ["[area food]"] * 2
    with pytest.raises(PlanError, match="omits area"):
        model.generate(RECORD, plan="[food]")
    assert set(model.generate(RECORD, plan="[food]", complete=True).plan.predicates) == {"food", "area"}
    with pytest.raises(AggGenError, match="2 records but 1 plans"):
        model.generate(DATA.train[:2], plan=["[food area]"])
    assert all(len(state) == 1 for state in model.generate(RECORD, level=1).plan.states)
    assert len(model.generate(RECORD, n_best=2, verify="off", beam={"beam": 3})) == 2
    with pytest.raises(ConfigError, match="unknown key 'levle'"):
        model.generate(RECORD, levle=1)


def test_a_check_lists_expressed_missing_and_invented_values(model: agggen.Model) -> None:
    record = agggen.Record.of({"id": "1", "triples": [["Aromi", "food", "Thai"], ["Aromi", "area", "city"]]})
    checked = model.check(record, "Aromi serves Thai food since 1999.")
    assert [triple.object for triple in checked.said] == ["Thai"]
    assert [triple.object for triple in checked.missing] == ["city"]
    assert checked.invented == ("1999",)
    assert "'1999' is in no triple" in str(checked)
    assert checked.as_dict()["values"] == {"food": "literal", "area": "missing"}
    with pytest.raises(AggGenError, match="1 records but 2 texts"):
        model.check(record, ["a", "b"])


# --- display of results ---


def test_a_result_prints_and_displays_plan_facts_and_check(model: agggen.Model) -> None:
    text = model.generate(RECORD, plan="[area] [food]")
    lines = str(text).splitlines()
    assert lines[0].startswith("[area] [food]   log p(plan) = -") and lines[1] == text.text
    assert [line.split()[0] for line in lines[2:4]] == ["[area]", "[food]"]
    assert lines[-1].startswith("check: every value complete, no fault found")
    for result in (text, model.plan(RECORD)[0], model.check(RECORD, text.text), model.align(RECORD, text.text)):
        printed: list[str] = []
        result._repr_pretty_(SimpleNamespace(text=printed.append), False)  # as IPython calls the method
        assert printed == [str(result)]


def test_notebooks_colour_facts_and_escape_texts(model: agggen.Model) -> None:
    record = agggen.Record.of({"id": "1", "triples": [["<b>Bo</b>", "food", "Thai"], ["<b>Bo</b>", "area", "city"]]})
    page = model.generate(record, plan="[area] [food]")._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert page.count("background:rgba(230,159,0") == 2 == page.count("background:rgba(86,180,233"), "plan or text"
    several = model.generate([record, RECORD])
    checked = model.check(record, "<b>Bo</b> & Thai in <i>Ulm</i>")._repr_html_()
    assert 'title="[food]">Thai</span> in &lt;i&gt;Ulm' in checked and "area &#x27;city&#x27;: missing" in checked
    assert page.split("</code>")[0] in model.generate([record], plan="[area] [food]")._repr_html_()
    assert several._repr_html_().count("<p>") == 2 and "<b>" not in model.plan(record)._repr_html_()


def test_results_become_tables(model: agggen.Model) -> None:
    pandas = pytest.importorskip("pandas")
    several = model.generate(DATA.train[:3])
    frame, table = several.to_frame(), several.to_arrow()
    assert isinstance(frame, pandas.DataFrame) and list(frame.text) == [text.text for text in several]
    assert table.column("id").to_pylist() == [record.id for record in DATA.train[:3]]
    assert len(model.plan(DATA.train[:2], k=2).to_frame()) == 4
    repeated = model.generate(pandas.DataFrame(ROWS[:2]).drop(columns="text"))
    assert [text.id for text in repeated] == ["Aromi", "Café Zoë"]


# --- evaluation ---


def test_an_evaluation_prints_itself_and_writes_a_report(model: agggen.Model, tmp_path: Path) -> None:
    scores = agggen.evaluate(model, DATA, split="train", limit=3)
    first = str(scores).splitlines()
    assert first[0].endswith("on toy train") and first[1].startswith("Only the first 3 of 8 records")
    assert any(line.startswith("plain/bleu = ") and "|tool:sacrebleu|" in line for line in first)
    assert repr(scores) == str(scores) and "<td>bleu</td>" in scores._repr_html_()
    frame = scores.to_frame()
    assert scores.measures()["plain/bleu"] == frame[frame.score == "bleu"].value.item()
    page = scores.report(tmp_path / "out")
    assert page.is_file() and len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 3
    with pytest.raises(ConfigError, match="out"):
        agggen.evaluate(model, DATA.test).report(tmp_path / "out")
    with pytest.raises(CorpusError, match="no record has a reference text"):
        agggen.evaluate(model, [{"name": "A", "food": "Thai"}])


def test_texts_of_any_system_are_scored() -> None:
    scores = agggen.score(["Aromi serves Thai food.", "B"], ["Aromi serves Thai food.", ["B", "C"]])
    assert float(scores["bleu"]) == pytest.approx(100) and set(scores) == {"bleu", "chrf", "ter"}
    assert str(scores).startswith("bleu = 100.00 (bleu|")
    scores = agggen.score([record.references[0].text for record in DATA.train], DATA.train)
    assert float(scores["values_whole"]) == 100
    for rows in (ROWS, pa.Table.from_pylist(ROWS)):  # regression: keys of rows were used as references
        of_rows = agggen.score([row["text"] for row in ROWS], rows)
        assert float(of_rows["bleu"]) == pytest.approx(100) and "values_whole" in of_rows
    with pytest.raises(AggGenError, match="unknown protocol 'plan'"):
        agggen.score(["a"], ["b"], protocol="plan")


def test_tables_have_the_columns_of_all_results() -> None:
    rows: list[dict[str, Any]] = [{"id": "1"}, {"id": "2", "faults": ["x"]}]
    results = Results([SimpleNamespace(as_dict=row.copy) for row in rows])
    assert results.to_arrow().to_pydict() == {"id": ["1", "2"], "faults": [None, ["x"]]}
    pytest.importorskip("pandas")
    assert list(results.to_frame().columns) == ["id", "faults"]
    assert Results[Any]([]).to_arrow().num_rows == 0


def test_groups_are_in_the_notation_of_plans() -> None:
    assert group_labels([("customer rating", "near"), ()]) == ['["customer rating" near]', "[]"]


def test_a_page_has_the_spaces_of_the_text() -> None:
    page = html("", [("[near]", "Ulm"), ("[area]", ", a city in "), ("[country]", "Oz.")], [])
    assert re.sub("<[^>]+>", "", page.split("<p>")[1].split("</p>")[0]) == "Ulm, a city in Oz."
