"""Scores of released outputs equal the published ones in all printed digits, and these equal their sources.

METEOR scores all systems of a protocol as one corpus, so that Java is started once.
"""

import csv
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from agggen.corpora.catalogue import get_corpus, load
from agggen.evaluation import Score
from agggen.evaluation.protocols import PROTOCOLS, challenge_tokens, measure
from agggen.evaluation.published import ALIGNMENT, BOARDS, PLANNING, Board, board_for
from agggen.evaluation.text_metrics import bleu_statistics
from agggen.records import Record
from agggen.report import Measure, Section
from agggen.report.build import compare_with_published
from tests.unit.score_files import needs_java, published_rows, score_texts

AGGGEN_E2E = (48000, 49000, 50000)
TRANSFORMER_WEBNLG = (13000, 15000, 17000)
E2E_CHALLENGE = ("tgen", "adapt", "sheff1", "slug", "zhaw1")
WEBNLG_TEAMS = ("ADAPT_Centre", "Baseline", "Tilburg_University-2")
SEEN, ALL = 971, 1862

System = tuple[list[str], list[list[str]]]
"""Texts, and the references of each text."""


def lines(path: Path, encoding: str = "utf-8") -> list[str]:
    return path.read_text(encoding=encoding).removesuffix("\n").split("\n")


def released(data_home: Path, run: str, checkpoint: int) -> System:
    """An output and the references of AggGen's release, both tokenised and lower-cased."""
    folder = data_home / "agggen_release" / "system_outputs"
    gold = lines(folder / "_shared" / f"{run}.gold")
    references = [[text.strip() for text in line.split("<ref_sep>")] for line in gold]
    return lines(folder / run / f"abs_bert_cnndm.{checkpoint}.candidate"), references


def e2e_challenge(data_home: Path, system: str) -> System:
    """A system of the E2E challenge with the official references, without outer quotes, as in the official scorer."""
    references: dict[str, list[str]] = {}
    with (data_home / "e2e" / "testset_w_refs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            references.setdefault(row["mr"], []).append(row["ref"])
    rows = lines(data_home / "outputs" / "e2e_challenge" / "primary" / f"{system}.tsv", "utf-8-sig")[1:]
    return [row.split("\t")[1].strip().strip('"').strip() for row in rows], list(references.values())


def webnlg_team(data_home: Path, team: str) -> System:
    """A team's outputs on all of WebNLG's 2017 test set, the seen part first, with the challenge's reference files."""
    folder = data_home / "outputs" / "webnlg_2017_challenge"
    columns = [lines(folder / "references" / f"gold-all-cat-reference{i}.lex") for i in range(3)]
    return lines(folder / "teams" / f"{team}_all-cat.txt"), [list(group) for group in zip(*columns, strict=True)]


def one_corpus(systems: dict[str, System]) -> tuple[System, dict[str, slice]]:
    texts: list[str] = []
    references: list[list[str]] = []
    parts = {}
    for name, (system_texts, system_references) in systems.items():
        parts[name] = slice(len(texts), len(texts) + len(system_texts))
        texts += system_texts
        references += system_references
    return (texts, references), parts


# --- E2E -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "printed",
    [
        {"bleu": 64.14, "nist": 8.3509},
        pytest.param({"rouge_l": 66.62, "cider": 2.1953}, marks=[needs_java, pytest.mark.slow]),
    ],
)
def test_e2e_scores_of_the_paper(data_home: Path, printed: dict[str, float]) -> None:
    result = [score_texts("e2e", *released(data_home, "e2e.old.hmm", n), list(printed)) for n in AGGGEN_E2E]
    for metric, value in printed.items():
        digits = 4 if metric in ("nist", "cider") else 2
        assert round(mean(scores[metric].value for scores in result), digits) == value, metric


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("system", E2E_CHALLENGE)
def test_e2e_challenge_scores(data_home: Path, system: str) -> None:
    rows = published_rows(data_home, "e2e_challenge_primary")
    printed = next(row for row in rows if row["system"] == system)
    units = {"BLEU": 100, "NIST": 1, "ROUGE_L": 100, "CIDEr": 1}
    result = score_texts("e2e", *e2e_challenge(data_home, system), list(map(str.lower, units)))
    for name, unit in units.items():
        assert f"{result[name.lower()].value / unit:.4f}" == printed[name], name


@needs_java
@pytest.mark.slow
def test_e2e_meteor(data_home: Path) -> None:
    systems = {str(n): released(data_home, "e2e.old.hmm", n) for n in AGGGEN_E2E}
    systems |= {name: e2e_challenge(data_home, name) for name in E2E_CHALLENGE}
    corpus, parts = one_corpus(systems)
    meteor = measure("e2e", *corpus, ["meteor"])["meteor"]
    assert round(mean(meteor.corpus(parts[str(n)]).value for n in AGGGEN_E2E), 2) == 45.13
    printed = {row["system"]: row["METEOR"] for row in published_rows(data_home, "e2e_challenge_primary")}
    for name in E2E_CHALLENGE:
        assert f"{meteor.corpus(parts[name]).value / 100:.4f}" == printed[name], name


# --- WebNLG ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "checkpoint", "padded", "unpadded"),
    [
        ("webnlg.hmm", 30000, 58.68, 58.68),
        ("webnlg.base", 13000, 59.15, 59.06),
        ("webnlg.base", 15000, 57.48, 56.82),
        ("webnlg.base", 17000, 58.78, 58.56),
    ],
)
def test_webnlg_bleu_of_the_paper(data_home: Path, run: str, checkpoint: int, padded: float, unpadded: float) -> None:
    texts, references = released(data_home, run, checkpoint)
    assert len(texts) == SEEN
    bleu = score_texts("webnlg-2017", texts, references, ["bleu"], tokenised=True)["bleu"]
    assert round(bleu.value, 2) == padded
    plain = bleu_statistics(texts, references, lowercase=True, tokenised=True)
    assert round(plain.corpus().value, 2) == unpadded


@pytest.mark.slow
@pytest.mark.parametrize("team", WEBNLG_TEAMS)
def test_webnlg_challenge_bleu_and_ter(data_home: Path, team: str) -> None:
    result = measure("webnlg-2017", *webnlg_team(data_home, team), ["bleu", "ter"], tokenised=True)
    for row in rows_of(data_home, team):
        part = PARTS[row["subset"]]
        assert f"{result['bleu'].corpus(part).value:.2f}" == row["BLEU"]
        assert result["ter"].corpus(part).value == pytest.approx(100 * float(row["TER"]), abs=1e-9)


@needs_java
@pytest.mark.slow
def test_webnlg_meteor_of_the_paper_and_the_challenge(data_home: Path) -> None:
    systems = {team: webnlg_team(data_home, team) for team in WEBNLG_TEAMS}
    systems |= {str(n): released(data_home, "webnlg.base", n) for n in TRANSFORMER_WEBNLG}
    systems["30000"] = released(data_home, "webnlg.hmm", 30000)
    corpus, parts = one_corpus(systems)
    meteor = measure("webnlg-2017", *corpus, ["meteor"], tokenised=True)["meteor"]
    assert meteor.segment_scores is not None
    assert round(mean(meteor.corpus(parts[str(n)]).value for n in TRANSFORMER_WEBNLG)) == 42
    assert round(meteor.corpus(parts["30000"]).value) == 43  # the paper prints the mean of three checkpoints
    for team in WEBNLG_TEAMS:
        start = parts[team].start
        for row in rows_of(data_home, team):
            part = PARTS[row["subset"]]
            result = meteor.corpus(slice(start + (part.start or 0), start + (part.stop or ALL)))
            assert result.value == pytest.approx(100 * float(row["METEOR"]), abs=1e-9), (team, row["subset"])
        log = data_home / "outputs" / "webnlg_2017_challenge" / "eval" / f"meteor-{team}-all-cat.txt"
        if log.exists():  # not published for the baseline
            single = [float(score) for score in re.findall(r"^Segment \d+ score:\s+(\S+)", log.read_text(), re.M)]
            assert len(single) == ALL
            np.testing.assert_allclose(meteor.segment_scores[parts[team]], 100 * np.array(single), atol=1e-9)


PARTS = {"all": slice(None, None), "seen": slice(0, SEEN), "unseen": slice(SEEN, ALL)}


def rows_of(data_home: Path, team: str) -> list[dict[str, str]]:
    return [row for row in published_rows(data_home, "webnlg_2017_challenge") if row["file_prefix"] == team]


def test_tokens_of_raw_references_equal_the_challenge_files(data_home: Path) -> None:
    entries = ElementTree.parse(data_home / "webnlg_2017" / "test" / "testdata_with_lex.xml").getroot().iter("entry")
    raw = [[str(lex.text) for lex in entry.iter("lex")][:3] for entry in entries]
    _, expected = webnlg_team(data_home, "Baseline")
    assert [[challenge_tokens(text) for text in group] for group in raw] == [
        [text for text in group if text] for group in expected
    ]


SLOT_ERRORS = ("ser.add", "ser.miss", "ser.wrong", "ser.ser")


def board(corpus: str, split: str, trained_on: str) -> Board:
    (result,) = (b for b in BOARDS if (b.corpus, b.split, b.trained_on) == (corpus, split, trained_on))
    return result


def scores(result: Board) -> dict[str, dict[str, float]]:
    return {system.name: system.scores for system in result.systems}


def test_the_e2e_rows_equal_the_paper(data_home: Path) -> None:
    names = {"original": "e2e", "cleaned": "e2e-cleaned"}
    columns = ("BLEU", "NIST", "METEOR", "ROUGE_L", "CIDEr", "Add", "Miss", "Wrong", "SER")
    printed = [r for r in published_rows(data_home, "agggen_paper_e2e") if r["kind"] == "published"]
    assert len(printed) == 15
    for row in printed:
        stored = scores(board(names[row["tested_on"]], "test", names[row["trained_on"]]))[row["model"]]
        assert list(stored.values()) == [float(row[column]) for column in columns], row["model"]


def test_the_webnlg_rows_equal_the_paper_and_the_challenge(data_home: Path) -> None:
    stored = scores(board("webnlg", "test-seen", "webnlg"))
    for row in published_rows(data_home, "agggen_paper_webnlg_seen"):
        (name,) = (name for name in stored if name.split(" (")[0] == row["model"].split(" (")[0])
        shares = {key: float(row[key.upper()]) for key in ("meteor", "ter") if row[key.upper()]}
        assert stored[name]["bleu"] == float(row["BLEU"])
        assert {k: v / 100 for k, v in stored[name].items() if k != "bleu"} == pytest.approx(shares, abs=0.0051)
    splits = {"all": "test", "seen": "test-seen", "unseen": "test-unseen"}
    challenge = published_rows(data_home, "webnlg_2017_challenge")
    assert len(challenge) == 9
    for row in challenge:
        stored = scores(board("webnlg", splits[row["subset"]], "webnlg"))
        stored = {name.split(" (")[0].lower(): values for name, values in stored.items()}[row["team"]]
        assert stored["bleu"] == float(row["BLEU"])
        assert stored["meteor"] == pytest.approx(100 * float(row["METEOR"]), abs=0.6)
        assert stored["ter"] == pytest.approx(100 * float(row["TER"]), abs=0.9)


def test_the_rows_of_tgen_plus_equal_the_scores_of_its_outputs(data_home: Path) -> None:
    names = {"orig": "e2e", "clean": "e2e-cleaned"}
    for row in published_rows(data_home, "e2e_cleaning_tgen_ser"):
        match = re.fullmatch(r"train-(\w+)_test-(\w+)/tgen-plus", row["group (mean of 5 runs)"])
        if match is None or match.groups() == ("clean", "orig"):
            continue
        stored = scores(board(names[match[2]], "test", names[match[1]]))["TGen+"]
        assert [stored[name] for name in SLOT_ERRORS] == pytest.approx(
            [float(row[part]) for part in ("Add", "Miss", "Wrong", "SER")], abs=0.006
        )


def test_the_planning_and_alignment_rows_equal_the_paper(data_home: Path) -> None:
    table = {row["quantity"]: row for row in published_rows(data_home, "agggen_paper_planning_alignment")}
    systems = zip(("Human", "AggGen", "Viterbi", "Rule-based aligner"), (*PLANNING, *ALIGNMENT), strict=True)
    for name, stored in systems:
        for metric, score in stored.scores.items():
            quantity = metric.replace("nmi", "NMI").replace("tau", "K-tau").replace("f1", "F1").replace("_", " ")
            row = table[f"{name} {quantity}"]
            assert f"{score:.{len(row['published'].partition('.')[2])}f}" == row["published"]
            assert score == pytest.approx(float(row["recomputed"]), abs=0.005)


each_board = pytest.mark.parametrize("result", BOARDS, ids=lambda b: f"{b.corpus} {b.split} trained on {b.trained_on}")


@each_board
def test_every_row_has_a_source_and_metrics_of_its_protocol(result: Board) -> None:
    known = {*PROTOCOLS[result.protocol], *SLOT_ERRORS}
    for system in result.systems:
        assert system.source
        assert set(system.scores) <= known
        rates = [system.scores[name] for name in SLOT_ERRORS if name in system.scores]
        assert not rates or sum(rates[:3]) == pytest.approx(rates[3], abs=0.15)  # the paper's sums are inexact
    assert result.split in get_corpus(result.corpus).splits
    assert len({system.name for system in result.systems}) == len(result.systems)
    assert board_for(result.corpus, result.split, result.inputs, result.protocol, result.trained_on) == (result, "")


@each_board
def test_the_number_of_inputs_equals_the_size_of_the_test_set(result: Board, data_home: Path) -> None:
    records = [item for item in load(result.corpus, result.split) if isinstance(item, Record)]
    assert len([record for record in records if record.references]) == result.inputs


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        (("elements", "test", 72, "plain", "elements"), "No published scores on elements test"),
        (("webnlg", "dev", 872, "webnlg-2017", "webnlg"), "No published scores on webnlg dev"),
        (("webnlg", "test-seen", 971, "plain", "webnlg"), "are by protocol webnlg-2017; these are by plain"),
        (("webnlg", "test-seen", 100, "webnlg-2017", "webnlg"), "of all 971 records; these are of 100"),
        (("webnlg", "test-seen", 971, "webnlg-2017", None), "trained on webnlg; this one on unknown data"),
        (("e2e-cleaned", "test", 1847, "e2e", "webnlg"), "trained on e2e or e2e-cleaned; this one on webnlg"),
        (("e2e", "test", 630, "e2e", "e2e-cleaned"), "trained on e2e; this one on e2e-cleaned"),
    ],
)
def test_incomparable_evaluations_have_no_board(evaluation: tuple[str, str, int, str, str | None], reason: str) -> None:
    result, expected = board_for(*evaluation)
    assert result is None
    assert reason in expected


def test_our_row_is_sorted_among_published_rows_by_bleu() -> None:
    bleu, ter = Measure("bleu", Score(60.6, "multi-bleu")), Measure("ter", Score(36.0, "tercom"))
    protocol = Section("webnlg-2017", "Texts", (bleu, Measure("meteor", None, None, "no Java"), ter))
    plain = Section("plain", "Texts", (Measure("bleu", Score(99.0, "13a")),))
    table, note = compare_with_published(board("webnlg", "test-seen", "webnlg"), [plain, protocol])
    assert table.columns == ("system", "bleu", "meteor", "ter", "source")
    names = [row["system"] for row in table.rows]
    assert names.index("this report") == 2  # below T5 and PlanEnc, above ADAPT's 60.59
    assert list(table.rows[2].values())[1:4] == [60.6, None, 36.0]
    assert "bleu multi-bleu" in note
    assert "13a" not in note
    assert "mean of 3" in str(dict(zip(names, table.rows, strict=True))["AggGen"]["source"])
