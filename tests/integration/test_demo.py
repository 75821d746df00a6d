"""The demo (README, "Two commands") trains a model with at least these scores."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "agggen_platform.cli.main", "demo"]
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
    assert completed.returncode == 0, completed.stderr
    (log,) = folder.glob("runs/elements-*/tracking.jsonl")
    metrics: dict[str, float] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        metrics |= event["values"] if event["event"] == "metrics" else {}
    return {"out": completed.stdout, "err": completed.stderr, "metrics": metrics, "folder": folder}


def test_the_alignment_and_the_plans_agree_with_gold(demo: dict[str, Any]) -> None:
    metrics = demo["metrics"]
    assert metrics["test/alignment/viterbi_accuracy"] >= 95
    assert metrics["test/plans/nmi_avg"] >= 0.9 * metrics["test/plans/human_nmi_avg"]
    # NMI is high for plans without aggregation, so the number of groups and the order are checked too.
    assert abs(metrics["test/plans/groups"] - metrics["test/plans/reference_groups"]) < 1.0
    assert metrics["test/plans/tau_avg"] > 0.5 * metrics["test/plans/human_tau_avg"]


def test_texts_express_the_values_of_their_records(demo: dict[str, Any]) -> None:
    assert demo["metrics"]["test/plain/bleu"] > 30
    assert demo["metrics"]["test/faithfulness/values_whole"] > 99
    assert demo["metrics"]["test/faithfulness/values_lenient"] > 99
    assert demo["metrics"]["test/faithfulness/invented"] < 1


def test_demo_shows_three_records_under_three_plans(demo: dict[str, Any]) -> None:
    for title in ("the learned plan", "a human plan", "no aggregation"):
        assert demo["out"].count(f"{title}: [") == 3
    assert "minutes" in demo["err"].splitlines()[0]


def test_the_commands_that_the_demo_suggests_work(demo: dict[str, Any]) -> None:
    """Except the last one, which starts a server."""
    tries = [line.strip() for line in demo["out"].partition("Three things to try:")[2].splitlines() if "agggen" in line]
    assert len(tries) == 3
    program = f"""agggen() {{ {sys.executable} -m agggen_platform.cli.main "$@"; }}\n"""
    printed = []
    for line in tries[:2]:
        completed = subprocess.run(["bash", "-c", program + line], cwd=demo["folder"], capture_output=True, timeout=900)
        assert completed.returncode == 0, completed.stderr
        printed.append(completed.stdout)

    generated = json.loads(printed[0])  # new facts, given plan
    assert generated["plan"] == "[block] [symbol period]"
    assert [fact["predicates"] for fact in generated["facts"]] == [["block"], ["symbol", "period"]]
    assert "".join(fact["text"] for fact in generated["facts"]) == generated["text"]
    assert "Xi" in generated["text"]  # an out-of-vocabulary word is copied

    assert "<table" in (demo["folder"] / "report" / "report.html").read_text(encoding="utf-8")
    report = json.loads((demo["folder"] / "report" / "report.json").read_text(encoding="utf-8"))
    measured = {key: {m["name"]: m for m in section["measures"]} for key, section in report["scores"].items()}
    assert measured["plans"]["nmi_avg"]["value"] == pytest.approx(demo["metrics"]["test/plans/nmi_avg"])
    assert measured["alignment"]["viterbi_accuracy"]["value"] >= 95
    assert measured["faithfulness"]["values_whole"]["value"] == demo["metrics"]["test/faithfulness/values_whole"]
    assert "variants|" in measured["faithfulness"]["values_whole"]["signature"], "the bundle has a lexicon"
    low, high = measured["text_plans"]["nmi_avg"]["interval_95"]
    assert low < measured["text_plans"]["nmi_avg"]["value"] < high
    assert sum(section["records"] for section in report["by_triples"]) == 72
