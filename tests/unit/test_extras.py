"""The command without extras: it works where it needs none; otherwise it names the extra to install."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from agggen.config import as_overrides
from agggen_platform.extras import EXTRAS
from tests.bare import REPO, python_without
from tests.unit.training import toy

ABSENT = {"ray", "mlflow", "sqlalchemy", "optuna", "boto3", "botocore", "psutil", "httpx", "fastapi"}
ABSENT |= {"starlette", "uvicorn", "pandas"}
SMALL = " ".join(as_overrides(toy.SETTINGS))
RUN = """
import json, io
from contextlib import redirect_stderr, redirect_stdout
from agggen_platform.cli.main import main
results = []
for words in json.loads(open("commands.json").read()):
    out, err = io.StringIO(), io.StringIO()
    code = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ended:
            code = ended.code
    results.append([code, out.getvalue(), err.getvalue()])
open("results.json", "w").write(json.dumps(results))
"""


def results_of(commands: list[str], folder: Path) -> dict[str, tuple[Any, str, str]]:
    """Runs each command without the extras; returns exit code, stdout and stderr by command."""
    (folder / "commands.json").write_text(json.dumps([command.split() for command in commands]))
    done = python_without(ABSENT, RUN, folder)
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "results.json").read_text())
    return {command: tuple(result) for command, result in zip(commands, results, strict=True)}


def test_commands_that_need_no_extra_work(tmp_path: Path) -> None:
    rows = [f"{name},Thai,city {number},{name} serves Thai food." for number, name in enumerate(toy.NAMES)]
    (tmp_path / "places.csv").write_text("\n".join(["name,food,area,text", *rows]) + "\n")
    bundle = "runs/toy/bundle"
    train = f"train places.csv --name toy {SMALL}"
    commands = [
        "doctor",
        "prepare places.csv --out places",
        train,
        f"{train} --fresh",
        f"evaluate {bundle} --corpus places --split dev --out report",
        f"generate {bundle} -i places.csv -o texts.jsonl",
        f"plan {bundle} -i places.csv -k 2",
        f"align {bundle} -i places.csv",
        f"inspect {bundle}",
        f"adjust {bundle} level=1 -o adjusted",
        "segment places --out facts --actors 0",
        f"bulk {bundle} places.csv --out texts --actors 0",
        "runs list",
        "serve-key me",
        "facts inspect Mars. --facts sentences",
    ]
    results = results_of(commands, tmp_path)
    assert {command: code for command, (code, _, err) in results.items() if code != 0} == {}, results
    assert len((tmp_path / "texts.jsonl").read_text().splitlines()) == len(toy.NAMES)
    for command in (train, f"evaluate {bundle} --corpus places --split dev --out report"):
        _, _, err = results[command]
        (said,) = (line for line in err.splitlines() if "MLflow" in line)
        assert "pip install 'agggen[ray]'" in said and "tracking.jsonl" in said
        assert "warning: the run log is incomplete" not in err
    assert "compare runs" not in results[train][2]
    log = (tmp_path / "runs" / "toy" / "tracking.jsonl").read_text()
    assert '"event": "end"' in log and "dev_loss" in log
    assert "MLflow is not installed" in results["doctor"][1] and "mlflow.db" not in results["doctor"][1]


NEEDS_RAY = [
    "sweep elements",
    "bulk {bundle} places.jsonl --out texts",
    "segment places --out facts",
    "serve {bundle}",
    "train elements cluster.workers=1",
    "train s3://bucket/corpus",
    "generate s3://bucket/model",
    "generate models:/agggen@champion",
    "models list",
    "models register {bundle}",
    "runs sync",
    "runs ui",
]


def test_other_commands_name_the_extra_to_install(tmp_path: Path, bundle: Path) -> None:
    commands = [command.format(bundle=bundle) for command in NEEDS_RAY]
    bulk = f"bulk {bundle} places.jsonl --out texts --endpoint http://127.0.0.1:1"
    results = results_of([*commands, "ask http://127.0.0.1:1", bulk], tmp_path)
    for command, (code, out, err) in results.items():
        extra = "serve" if command.startswith(("ask", "serve")) or "--endpoint" in command else "ray"
        assert (code, out) == (2, ""), (command, err)
        last = err.splitlines()[-1]
        assert re.search(rf"error: .* not installed: pip install 'agggen\[{extra}\]'", last), (command, err)
        assert "Traceback" not in err
    assert not list(tmp_path.glob("runs/*/tracking.jsonl")), "no run was started"


def test_the_tested_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (ours,) = (requirement for requirement in extras["dev"] if requirement.startswith("agggen["))
    assert set(EXTRAS.values()) < set(extras) - {"dev"} == set(ours[len("agggen[") : -1].split(",")), "dev has all"
    for package, extra in EXTRAS.items():
        names = {re.split(r"[^\w-]", requirement)[0]: name for name in ("serve", "ray") for requirement in extras[name]}
        assert names.get(package, extra) == extra, package
    base = {re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]}
    assert not base & EXTRAS.keys()
