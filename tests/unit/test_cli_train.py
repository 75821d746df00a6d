"""`agggen train`: presets, overrides, finished runs, errors."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agggen.bundle import fingerprint, load_bundle
from agggen.config import config_hash, load_config
from agggen.run import RunConfig
from agggen.training.events import TrainingEvent
from agggen.training.progress import ProgressLines
from tests.command import Run, check_succeeds, command
from tests.unit.training.toy import RECORDS, write_corpus

PRESET = """\
corpus:
  name: corpus
model: {width: 16, heads: 2, layers: 1, feed_forward: 16, predicate_dim: 8}
text: {min_count: 1}
training:
  threads: 1
  baseline: {epochs: 1, warmup: 1}
  joint: {epochs: 1, warmup: 1}
inference: {plans: 1, beam: {beam: 1, max_fact_tokens: 8}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with preset and corpus, shared by all tests, since creating a run log takes seconds."""
    path = tmp_path_factory.mktemp("train")
    write_corpus(path / "corpus")
    (path / "tiny.yaml").write_text(PRESET, encoding="utf-8")
    return path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)
    return partial(command(capsys), "train")


def test_a_finished_run_is_not_trained_again(run: Run, folder: Path) -> None:
    out, err = check_succeeds(run("tiny.yaml", "--name", "first"))
    bundle = folder / out.strip()
    assert bundle == folder / "runs" / "first" / "bundle"
    lines = err.splitlines()
    assert lines[0] == "Run first"
    assert lines[1].startswith("Transformer: update 1 of 1  epoch 1  dev loss ")
    assert lines[2].startswith("joint model: update 1 of 1  epoch 1  dev loss ")
    assert lines[-1].endswith(f"compare runs: agggen runs ui --runs {Path('runs').resolve()}")
    loaded = load_bundle(bundle)
    assert loaded.config["model"]["width"] == 16
    assert set(loaded.sources) >= {"corpus/train", "corpus/dev"}

    before, log = fingerprint(bundle), (bundle.parent / "tracking.jsonl").read_bytes()
    code, repeated, err = run("tiny.yaml", "--name", "first")
    assert (code, repeated) == (0, out)
    assert "This run is finished; --fresh trains it again" in err
    assert "update" not in err
    assert fingerprint(bundle) == before
    assert (bundle.parent / "tracking.jsonl").read_bytes() == log  # nothing is logged for a finished run


def test_print_config_prints_a_preset_and_trains_nothing(run: Run, folder: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    out, err = check_succeeds(run("tiny.yaml", "model.dropout=0.3", "--print-config", "--runs", str(runs)))
    config = json.loads(out)
    assert err == f"{config_hash(load_config(RunConfig, 'tiny.yaml', ['model.dropout=0.3']))}\n"
    assert config["cluster"]["workers"] == 0
    assert (config["model"]["dropout"], config["model"]["width"], config["corpus"]["name"]) == (0.3, 16, "corpus")
    assert not runs.exists()
    (tmp_path / "resolved.json").write_text(out, encoding="utf-8")
    assert run(str(tmp_path / "resolved.json"), "--print-config")[1] == out


@pytest.mark.parametrize("divided", [False, True])
def test_a_json_file_with_rows_is_data_and_not_a_preset(run: Run, tmp_path: Path, divided: bool) -> None:
    rows = [record.as_dict() for record in RECORDS]
    path = tmp_path / "restaurants.json"
    path.write_text(json.dumps({"train": rows[:8], "dev": rows[8:]} if divided else rows))
    out, _ = check_succeeds(run(str(path), "--print-config"))
    assert json.loads(out)["corpus"]["name"] == str(path)


@pytest.mark.parametrize(
    ("arguments", "status", "begun", "message"),
    [
        (["elemnts"], 2, False, "no preset is called 'elemnts'; did you mean elements?"),
        (["tiny.yaml", "training.baseline.epochs=-1"], 2, False, "epochs must be at least 0, not -1"),
        (["tiny.yaml", "--name", "a/b"], 2, False, "the run name 'a/b' must be letters, digits"),
        (["tiny.yaml", "--runs", "s3://models/runs"], 2, False, "s3://models/runs is not a folder of this machine"),
        (["tiny.yaml", "corpus.name=corpsu"], 2, False, "error: no corpus 'corpsu'"),
        (
            ["tiny.yaml", "corpus.train=tarin"],
            2,
            False,
            "error: the folder corpus has no split 'tarin'; it has dev, tr",
        ),
        (["tiny.yaml", "corpus.name=empty"], 2, False, "error: the folder empty has no prepared corpus"),
        (["tiny.yaml", "facts.source=corpus"], 2, True, "has a reference without facts; set facts.source=embedded"),
        (["tiny.yaml", "training.baseline.learning_rate=1e30"], 4, True, "smaller learning_rate"),
    ],
)
def test_invalid_settings_and_data_are_exit_code_2_and_a_loss_that_is_not_finite_4(
    run: Run, folder: Path, tmp_path: Path, arguments: list[str], status: int, begun: bool, message: str
) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    code, out, err = run("--runs", str(tmp_path / "runs"), *arguments)
    assert (code, out) == (status, "")
    last = err.splitlines()[-1]
    assert last.startswith("error: ") and message in last
    assert (tmp_path / "runs").exists() == begun


def test_a_first_evaluation_before_any_log_line_has_no_train_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """Regression: a stage shorter than log_every printed `train loss nan`."""
    show = ProgressLines()
    event = TrainingEvent("evaluation", "joint", 2, 2, 1, 3.0, {"dev_loss": 3.0})
    show(event)
    show(replace(event, kind="log", metrics={"train_loss": 2.5, "epoch": 1.5, "texts_per_second": 10.0}))
    show(replace(event, metrics={"dev_loss": 2.75}))
    assert capsys.readouterr().err.splitlines() == [
        "joint model: update 2 of 2  epoch 1  dev loss 3.000",
        "joint model: update 2 of 2  epoch 1  train loss 2.500  dev loss 2.750",
    ]
