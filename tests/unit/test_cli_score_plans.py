"""`agggen score-plans` and `score-alignments` as users run them, down to the paper's tables.

The golden tests do what a user would: write the release's files as JSON lines and run the command on them.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.command import Run
from tests.unit.score_files import rounded, scores_of, write

PLANS = [{"id": "1", "plan": "[a b] [c]"}, {"id": "2", "plan": "[a] [b]"}]
TEXTS = [{"id": "1", "plan": "[a] [b]", "facts": ["One ", "two."]}]


# --- score-plans -------------------------------------------------------------------------------------------------


def test_plans_are_scored_and_written(run: Run) -> None:
    write("gold.jsonl", [*PLANS, {"id": "1", "plan": "[c] [a] [b]"}])
    write("plans.jsonl", [{"id": "2", "plan": "[b] [a]"}, {"id": "1", "plan": "[b a] [c]"}])
    code, out, _ = run("score-plans", "--gold", "gold.jsonl", "--plans", "plans.jsonl", "--json", "out.json")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["score", "value", "signature"]
    written = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert {name: [f"{s['score']:.4f}", s["signature"]] for name, s in written.items()} == {
        name: rest for name, *rest in rows[1:]
    }
    scores = scores_of("out.json")
    assert (scores["exact_match"], scores["exact_partition"], scores["placed"]) == (0.5, 1, 1)
    assert (scores["groups"], scores["reference_groups"]) == (2, pytest.approx(7 / 3))
    assert scores["tau_max"] == pytest.approx(0)
    assert sorted(os.listdir()) == ["gold.jsonl", "out.json", "plans.jsonl"]


def test_a_measure_that_no_input_allows_is_null(run: Run) -> None:
    write("gold.jsonl", [{"id": "1", "plan": "[a b]"}, {"id": "2", "plan": "[c]"}])
    code, out, err = run("score-plans", "--gold", "gold.jsonl", "--plans", "gold.jsonl", "--json", "out.json")
    assert code == 0
    assert scores_of("out.json")["tau_max"] is None
    assert "tau_avg\tundefined\t" in out
    assert "1 inputs have a single predicate" in err


def plan_of(text: str) -> str:
    """The release's ``a&&b||c`` (facts split by |, triples of one by &&) as ``[a b] [] [c]``."""
    return " ".join("[" + " ".join(fact.split("&&")) + "]" for fact in text.split("|"))


@pytest.fixture(scope="module")
def annotations(data_home: Path) -> Path:
    return data_home / "agggen_release" / "human_annotations"


def test_golden_planning_of_people_and_of_agggen(run: Run, data_home: Path, annotations: Path) -> None:
    def triples(columns: list[str]) -> tuple[str, ...]:
        return tuple(sorted(column.strip() for column in columns if column.strip()))

    outputs = data_home / "agggen_release" / "system_outputs"
    inputs = (outputs / "_shared" / "webnlg.hmm.raw_src").read_text(encoding="utf-8").splitlines()
    planned = (outputs / "webnlg.hmm" / "abs_bert_cnndm.30000.hmm").read_text(encoding="utf-8").splitlines()
    system = {}
    for source, line in zip(inputs, planned, strict=True):
        relations, flags = (column.split() for column in line.split("\t"))
        closed = [name + ("|" if flag == "1" else "&&") for name, flag in zip(relations, flags, strict=True)]
        plan = plan_of("".join(closed).removesuffix("|").removesuffix("&&"))
        system[triples(source.removeprefix("[CLS]").split("[SEP]"))] = plan

    sources = (annotations / "raw" / "webnlg_ann_src.jsonl").read_text(encoding="utf-8").splitlines()
    targets = (annotations / "raw" / "webnlg_ann_tgt.jsonl").read_text(encoding="utf-8").splitlines()
    references = [[column.split("[XXN]")[1] for column in line.split("\t")] for line in targets]
    write("gold.jsonl", [{"id": i, "plan": plan_of(text)} for i, group in enumerate(references) for text in group])
    plans = [{"id": i, "plan": system[triples(line.split("\t")[:-1])]} for i, line in enumerate(sources)]
    write("plans.jsonl", plans)

    assert "[]" in Path("gold.jsonl").read_text(encoding="utf-8")  # facts that say no triple
    code, _, err = run("score-plans", "--gold", "gold.jsonl", "--plans", "plans.jsonl", "--json", "out.json")
    assert code == 0, err
    scores = scores_of("out.json")
    names = ("nmi_max", "nmi_avg", "tau_max", "tau_avg")
    assert rounded(scores, 4, *names) == [0.7101, 0.6416, 0.6247, 0.2064]
    assert rounded(scores, 4, *(f"human_{name}" for name in names)) == [0.9340, 0.8415, 0.7587, 0.2488]


# --- score-alignments --------------------------------------------------------------------------------------------


def test_alignments_are_scored_in_percent(run: Run) -> None:
    write("gold.jsonl", [*TEXTS, {"id": "2", "plan": "[] [c d]", "facts": ["Well, ", "three and four."]}])
    ours = [
        {"id": "1", "plan": "[a b] []", "facts": ["one", "two ."]},
        {"id": "2", "plan": "[] [c]", "facts": ["Well,", "three."]},
    ]
    write("ours.jsonl", ours)
    code, out, err = run("score-alignments", "--gold", "gold.jsonl", "--predicted", "ours.jsonl", "--json", "out.json")
    assert code == 0
    assert rounded(scores_of("out.json"), 2, "precision", "recall", "f1", "accuracy") == [66.67, 75, 70.59, 50]
    assert "accuracy\t50.0000\talignment|right/all|percent|triples:4" in out
    assert "The facts of 1 texts differ from the gold facts (first: id '2')" in err


@pytest.fixture(scope="module")
def gold_alignments(annotations: Path) -> list[dict[str, Any]]:
    folder = annotations / "evaluation"
    plans = (folder / "rst_ann_gt_plan.jsonl").read_text(encoding="utf-8").splitlines()
    texts = (folder / "rst_ann_tgt.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = zip(plans, texts, strict=True)
    return [{"id": i, "plan": plan_of(plan), "facts": text.split("\t")[1:]} for i, (plan, text) in enumerate(pairs)]


def test_golden_viterbi_alignments(run: Run, data_home: Path, gold_alignments: list[dict[str, Any]]) -> None:
    file = data_home / "agggen_release" / "system_outputs" / "Viterbi" / "abs_bert_cnndm.30000.anno"
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    facts = {str(line["id"]): line["facts"] for line in gold_alignments}
    write("ours.jsonl", [{"id": number, "plan": plan_of(plan), "facts": facts[number]} for _, plan, number in rows])
    write("gold.jsonl", gold_alignments)
    arguments = ("score-alignments", "--gold", "gold.jsonl", "--predicted", "ours.jsonl", "--json", "out.json")
    code, _, err = run(*arguments)
    assert code == 2  # the release has no alignment of one of the texts
    assert err == "error: ours.jsonl has no alignment for gold.jsonl, line 13, id '12'\n"

    write("gold.jsonl", [line for line in gold_alignments if line["id"] != 12])
    code, _, err = run(*arguments)
    assert code == 0
    assert "In 77 texts two facts state the same predicate; the last one counts" in err
    assert rounded(scores_of("out.json"), 2, "precision", "recall", "f1", "accuracy") == [89.73, 84.16, 86.85, 75.51]
