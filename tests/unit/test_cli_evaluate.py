"""`agggen evaluate` with a bundle of random weights: output, refusals, missing Java, failing run log."""

import json
from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import fingerprint
from agggen.corpora.catalogue import load
from agggen.corpora.elements import elements_records
from agggen.corpora.prepared import write_records
from agggen.errors import ConfigError
from agggen.evaluation.values import VALUE_METRICS
from agggen.records import Record
from agggen.report.folder import FILES
from agggen_platform import evaluation
from agggen_platform.cli.options import warn_if_temporary
from agggen_platform.evaluation import report_folder
from agggen_platform.storage.folder import Folder
from tests.command import Run, check_refused, check_succeeds
from tests.tiny_models import save_tiny_bundle
from tests.unit.cli_write.examples import json_lines, parsed

TRIPLES = [["Aromi", "food", "English"], ["Aromi", "near", "Crown Hall"], ["Aromi", "area", "riverside"]]
TEXTS = ["Aromi serves English food.", "Aromi, near Crown Hall, is English."]
RESTAURANTS = [
    Record.of({"id": str(n), "triples": TRIPLES[: 1 + n % 3], "references": TEXTS[: 1 + n % 2]}) for n in range(6)
]


def save(path: Path, records: list[Record], corpus: str = "elements") -> Path:
    config = {"corpus": {"name": corpus, "limit": 0}}
    return save_tiny_bundle(path, records, config=config, sources={"elements/train": "ab12"})


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model") / "run" / "bundle", [*elements_records("train")][:40])


@pytest.fixture
def restaurants(tmp_path: Path) -> Path:
    (tmp_path / "prepared").mkdir()
    write_records(tmp_path / "prepared" / "dev.parquet", RESTAURANTS, "e2e", "dev")
    return tmp_path / "prepared"


@pytest.fixture(autouse=True)
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")  # an invalid store, so that nothing is logged


def loaded(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def lines(folder: Path) -> list[dict[str, Any]]:
    return parsed((folder / "records.jsonl").read_text(encoding="utf-8"))


def evaluated(run: Run, bundle: Path, *more: object) -> tuple[str, str]:
    return check_succeeds(run("evaluate", bundle, "--corpus", "elements", "--limit", "4", "-o", "report", *more))


def test_a_report_has_scores_texts_and_settings_which_are_logged(run: Run, bundle: Path) -> None:
    out, err = evaluated(run, bundle, "--runs", "log")
    assert f"Report: {Path('report') / 'report.html'}" in err
    assert sorted(path.name for path in Path("report").iterdir()) == sorted(FILES)
    table = [line.split("\t") for line in out.splitlines()]
    assert table[0] == ["score", "value", "95 % interval", "signature"]
    names = {row[0] for row in table[1:]}
    assert {"plain/bleu", "plain/chrf", "plain/ter", *(f"faithfulness/{name}" for name in VALUE_METRICS)} <= names
    assert {"plans/nmi_avg", "text_plans/exact_match", "alignment/viterbi_accuracy"} <= names
    assert all(len(row) == 4 and row[3] for row in table)
    assert "faithfulness/ser.ser" not in names  # the elements have no slots
    report = loaded(Path("report"))
    assert report["run"]["corpus"] == "elements dev"
    assert report["identity"]["bundle"] == fingerprint(bundle)
    assert report["run"]["fingerprint of elements/train"] == "ab12"
    assert report["run"]["command"] == f"agggen evaluate {bundle} --corpus elements --limit 4 -o report --runs log"
    hashes = ("bundle fingerprint", "training configuration (hash)", "corpus fingerprint")
    assert all(report["run"][name] not in (None, "") for name in (*hashes, "torch", "machine", "seed"))
    (log,) = Path("log").glob("evaluate-elements-dev-*/tracking.jsonl")
    events = parsed(log.read_text(encoding="utf-8"))
    metrics = {name: value for event in events for name, value in event.get("values", {}).items()}
    scores = {m["name"]: m["value"] for m in report["scores"]["plain"]["measures"]}
    assert metrics["dev/plain/bleu"] == pytest.approx(scores["bleu"])
    files = sorted(Path(event["path"]).name for event in events if event["event"] == "artifact")
    assert files == sorted([*FILES, "texts.json"])


def test_the_texts_of_a_report_can_be_scored_again_and_other_settings_do_not_replace_it(run: Run, bundle: Path) -> None:
    evaluated(run, bundle)
    json_lines(Path("gold.jsonl"), [record.as_dict() for record in elements_records("dev")][:4])
    files = ("--records", "gold.jsonl", "--hypotheses", "report/records.jsonl", "--json", "s.json")
    check_succeeds(run("score", *files))
    scores = json.loads(Path("s.json").read_text(encoding="utf-8"))
    sections = loaded(Path("report"))["scores"]
    measured = {m["name"]: m for key in ("plain", "faithfulness") for m in sections[key]["measures"]}
    assert set(scores) == {"bleu", "chrf", "ter", *VALUE_METRICS}
    for name, score in scores.items():  # without a lexicon, both checks are the same
        assert (score["score"], score["signature"]) == (measured[name]["value"], measured[name]["signature"])
    before = {path: path.read_bytes() for path in Path("report").iterdir()}
    code, out, err = run("evaluate", bundle, "--corpus", "elements", "--limit", "4", "-o", "report", "plans=1")
    assert (code, out) == (2, "")
    assert err.startswith("error: report has the report of another evaluation (its inference differs)")
    assert {path: path.read_bytes() for path in Path("report").iterdir()} == before


def test_no_aggregation_has_one_triple_per_fact_and_no_scores_of_plans(run: Run, bundle: Path) -> None:
    """The run log cannot be written, which must not fail the evaluation."""
    Path("log").write_text("a file where a folder belongs")
    out, err = evaluated(run, bundle, "--runs", "log", "ablation=no-aggregation")
    assert "warning: the run log is incomplete" in err
    assert all(len(fact["predicates"]) == 1 for line in lines(Path("report")) for fact in line["facts"])
    assert "\nplans/" not in out
    assert "text_plans/groups" in out


@pytest.mark.slow
def test_a_report_on_e2e_has_the_published_systems(run: Run, data_home: Path, tmp_path: Path) -> None:
    test = [item for item in load("e2e", "test") if isinstance(item, Record)]
    bundle = save(tmp_path / "e2e" / "bundle", test[:40], "e2e")
    quick = ("plans=1", "beam.beam=1", "beam.max_fact_tokens=3", "verify=off")
    evaluate = ("evaluate", bundle, "--corpus", "e2e", "--split", "test", "--metrics", "bleu", *quick)
    check_succeeds(run(*evaluate, "-o", "r"))
    report = loaded(Path("r"))
    table = {row["system"]: row for row in report["published"]}
    assert {"AggGen", "TGen", "TGen+", "Transformer"} <= set(table)
    assert (table["this report"]["meteor"], table["TGen"]["meteor"]) == (None, 45.07)
    measures = {m["name"]: m["value"] for part in report["scores"].values() for m in part["measures"]}
    assert table["this report"]["ser.ser"] == measures["ser.ser"]
    assert "Ours: protocol e2e on raw texts (bleu" in report["published_note"]
    check_succeeds(run(*evaluate, "--limit", "9"))
    partial = loaded(next((tmp_path / "e2e" / "evaluation").iterdir()))
    assert partial["published"] is None
    assert "of all 630 records; these are of 9" in partial["published_note"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--corpus", "elements", "--split", "tset"), "elements has no split 'tset'"),
        (("--corpus", "elements", "ablation=x"), "'ablation' must be 'none'"),
        (("--corpus", "elements", "--metrics", "blue"), "has no metric 'blue'; it has bleu, chrf, ter"),
        (("--corpus", "elements", "-o", "taken"), "cannot write a report to taken: it is a file"),
        (("--corpus", "elements", "--runs", "s3://runs"), "s3://runs is not a folder of this machine"),
        (("--corpus", "prepared", "--split", "test"), "the folder prepared has no split 'test'; it has dev"),
        (("--corpus", "empty"), "the folder empty has no prepared corpus"),
        (("--corpus", "elements", "-o", "-"), "the scores go to standard output"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    run: Run, bundle: Path, restaurants: Path, options: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agggen.report.evaluate.generate_outputs", None)  # options are checked first
    Path("taken").write_text("x")
    Path("empty").mkdir()
    check_refused(run("evaluate", bundle, *options), 2, message)


def test_without_java_a_report_on_slots_is_written_without_meteor(
    run: Run, bundle: Path, restaurants: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    out, err = check_succeeds(run("evaluate", bundle, "--corpus", restaurants))
    folder = Path(err.split("Report: ")[1].splitlines()[0]).parent
    assert folder.parent == bundle.parent / "evaluation"
    assert folder.name.startswith("e2e-dev-")  # from the file's metadata, not from the folder's name
    assert "faithfulness/ser.ser" in out
    assert all("slot_errors" in line for line in lines(folder))
    assert "warning: e2e/meteor is not computed" in err
    measures = {measure["name"]: measure for measure in loaded(folder)["scores"]["e2e"]["measures"]}
    assert measures["meteor"]["value"] is None
    assert "Java" in measures["meteor"]["not_computed"]
    assert measures["bleu"]["value"] is not None
    assert "not computed" in (folder / "report.html").read_text(encoding="utf-8")
    code, _, err = run("evaluate", bundle, "--corpus", restaurants, "-o", "requested", "--metrics", "meteor")
    assert (code, "Java" in err, Path("requested").exists()) == (2, True, False)


def test_the_run_log_is_in_the_folder_of_the_training(tmp_path: Path) -> None:
    (tmp_path / "runs" / "toy-1").mkdir(parents=True)
    assert evaluation.runs_folder_of(tmp_path / "runs" / "toy-1" / "bundle") == Path("runs")
    (tmp_path / "runs" / "toy-1" / "tracking.jsonl").touch()
    assert evaluation.runs_folder_of(tmp_path / "runs" / "toy-1" / "bundle") == tmp_path / "runs"


def test_a_report_is_uploaded_to_a_store_when_complete(s3: str) -> None:
    address = f"{s3}/reports/one"
    with pytest.raises(ConfigError, match=f"{address} holds another"), report_folder(address) as folder:
        raise ConfigError(f"{folder} holds another")
    assert Folder(address).names() == []
    with report_folder(address) as folder:
        folder.mkdir()
        for name in FILES:
            (folder / name).write_text(name)
    assert sorted(Folder(address).names()) == sorted(FILES)
    with report_folder(address) as folder:  # it downloads the existing report to compare the identities
        assert (folder / "report.json").read_text() == "report.json"


def test_a_folder_in_rays_copy_of_the_working_directory_causes_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "working_dir_files" / "_ray_pkg_1"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    for folder in ("/shared/runs", "s3://models/runs"):
        warn_if_temporary(folder, "--runs")
    assert capsys.readouterr().err == ""
    warn_if_temporary("runs", "--runs")
    assert "warning: runs is in" in capsys.readouterr().err
