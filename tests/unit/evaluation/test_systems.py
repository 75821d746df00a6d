"""Scores of a system: protocols, files of texts, metrics, confidence intervals, comparison with another system."""

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from agggen.errors import AggGenError, CorpusError, RecordError
from agggen.evaluation.files import read_texts
from agggen.evaluation.protocols import PROTOCOLS, challenge_tokens, measure
from agggen.evaluation.segments import confidence_interval, mean_statistics, paired_bootstrap
from agggen.evaluation.systems import measure_system, metrics_of, non_slot_predicate, slot_statistics
from agggen.evaluation.text_metrics import bleu_statistics, mteval_tokens, multi_bleu_statistics
from agggen.evaluation.values import VALUE_METRICS
from agggen.records import Record, Reference, Triple
from tests.unit.score_files import score_texts

TEXTS = ["The Fig is a cheap pub near the river.", "It serves Thai food, doesn't it?", "Ann was born in Rome in 1990."]
RAGGED = [
    ["The Fig, near the river, is a cheap pub.", "The Fig is a pub near the river."],
    ["It serves food from Thailand."],
    ["Ann was born in 1990 in Rome.", "Ann, born 1990, is from Rome.", "In 1990 Ann was born in Rome."],
]
HAS_JAVA = shutil.which("java") is not None
LIGHT = {
    "plain": ["bleu", "chrf", "ter"],
    "e2e": ["bleu", "nist", "rouge_l", "cider"] if HAS_JAVA else ["bleu", "nist"],
    "webnlg-2017": ["bleu", "ter"],
}
"""The metrics of each protocol without METEOR, which takes seconds to start."""


def test_plain_is_sacrebleu_without_blank_references() -> None:
    columns = [[group[0] for group in RAGGED]]
    result = score_texts("plain", TEXTS, [["", group[0], "  "] for group in RAGGED])
    assert {name: score.value for name, score in result.items()} == {
        "bleu": sacrebleu.corpus_bleu(TEXTS, columns).score,
        "chrf": sacrebleu.corpus_chrf(TEXTS, columns).score,
        "ter": sacrebleu.corpus_ter(TEXTS, columns, normalized=True, case_sensitive=True).score,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_empty_texts_have_finite_scores(protocol: str) -> None:
    for texts in (["", "", ""], [TEXTS[0], "", " "]):
        result = measure(protocol, texts, RAGGED, LIGHT[protocol])
        for statistics in result.values():
            assert math.isfinite(statistics.corpus().value)
            assert statistics.segment_scores is not None
            assert np.isfinite(statistics.segment_scores).all()
    for metric, score in score_texts(protocol, ["", "", ""], RAGGED, LIGHT[protocol]).items():
        assert score.value > 90 if metric == "ter" else score.value == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_order_of_references_does_not_matter_nor_do_blank_ones(protocol: str) -> None:
    reordered = [["", *group[::-1], "  "] for group in RAGGED]
    requested = [metric for metric in LIGHT[protocol] if (protocol, metric) != ("webnlg-2017", "bleu")]
    expected = score_texts(protocol, TEXTS, RAGGED, requested)
    for metric, score in score_texts(protocol, TEXTS, reordered, requested).items():
        assert score.value == pytest.approx(expected[metric].value)


def test_webnlg_takes_three_references() -> None:
    three = [[*group, "x y", "z"][:3] for group in RAGGED]
    four = [[*group, text] for group, text in zip(three, TEXTS, strict=True)]
    for metric, score in score_texts("webnlg-2017", TEXTS, four, ["bleu", "ter"]).items():
        assert score == score_texts("webnlg-2017", TEXTS, three, [metric])[metric]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tokenised_texts_are_not_tokenised_again(protocol: str) -> None:
    """Raw texts and their tokens have the same scores; protocol e2e tokenises both."""
    metrics = [metric for metric in LIGHT[protocol] if metric in ("bleu", "nist")]
    tokenisers = {"plain": sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a(), "webnlg-2017": challenge_tokens}
    tokenise = tokenisers.get(protocol, str)
    tokens, reference_tokens = list(map(tokenise, TEXTS)), [list(map(tokenise, group)) for group in RAGGED]
    raw = score_texts(protocol, TEXTS, RAGGED, metrics)
    for metric, score in score_texts(protocol, tokens, reference_tokens, metrics, tokenised=True).items():
        assert score.value == raw[metric].value
    if protocol != "e2e":
        untokenised = score_texts(protocol, TEXTS, RAGGED, ["bleu"], tokenised=True)["bleu"]
        assert untokenised.value != raw["bleu"].value
        assert untokenised.signature != raw["bleu"].signature


@pytest.mark.parametrize(
    ("tokenise", "text", "tokens"),
    [
        (challenge_tokens, "Adolfo Suárez Madrid\u2013Barajas's 3.5", "adolfo suarez madrid - barajas ' s 3 . 5"),
        (challenge_tokens, "Løkke \u201can\u0131t\u0131\u201d Straße", 'lokke " aniti " strasse'),
        (challenge_tokens, "", ""),
        (mteval_tokens, "The Fig, near £20-25, isn't bad.", "the fig , near £20 - 25 , isn't bad ."),
        (mteval_tokens, "3.5 stars (5 out of 5)!", "3.5 stars ( 5 out of 5 ) !"),
        (mteval_tokens, "ÉCOLE &amp; Co", "École & co"),
        (mteval_tokens, "two\nlines", "two lines"),
        (mteval_tokens, "", ""),
    ],
)
def test_tokens(tokenise: Callable[[str], str], text: str, tokens: str) -> None:
    assert tokenise(text) == tokens


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_signatures_state_tool_version_and_preprocessing(protocol: str) -> None:
    for metric, score in score_texts(protocol, TEXTS, RAGGED, LIGHT[protocol]).items():
        name, *fields = score.signature.split("|")
        keys = {field.split(":")[0] for field in fields}
        assert name == metric and {"tool", "version", "nrefs", "case"} <= keys and {"tok", "space"} & keys
        assert ("texts" in keys) == (protocol != "plain")
        assert ("missing" in keys) == ((protocol, metric) == ("webnlg-2017", "bleu"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_segment_scores_equal_the_scores_of_single_texts(protocol: str) -> None:
    metrics = [metric for metric in LIGHT[protocol] if metric not in ("nist", "cider")]
    for metric, statistics in measure(protocol, TEXTS, RAGGED, metrics).items():
        assert statistics.segment_scores is not None and statistics.segment_scores.shape == (3,)
        if metric != "bleu":  # sentence BLEU uses the effective order
            single_scores = [
                score_texts(protocol, [t], [g], [metric])[metric].value for t, g in zip(TEXTS, RAGGED, strict=True)
            ]
            assert statistics.segment_scores == pytest.approx(single_scores)


def test_the_score_of_a_part_of_the_corpus() -> None:
    for metric, statistics in measure("plain", TEXTS, RAGGED).items():
        expected = score_texts("plain", TEXTS[1:], RAGGED[1:], [metric])[metric].value
        assert statistics.corpus(slice(1, None)).value == expected
        assert statistics.corpus([2, 1]).value == expected
        assert statistics.corpus([1]).signature.endswith("|texts:1of3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "bleu"}, "unknown protocol 'bleu'; known are plain, e2e, webnlg-2017"),
        ({"metrics": ["bleu", "nist"]}, "protocol plain has no metric 'nist'; it has bleu, chrf, ter"),
        ({"metrics": []}, "no metric is requested; protocol plain has bleu"),
        ({"hypotheses": [], "references": []}, "no texts to score"),
        ({"hypotheses": ["a"]}, "1 texts but references for 2; the numbers must be equal"),
        ({"references": ["a", "b"]}, "references of text 1 are a string, not a list of strings"),
        ({"references": [["a"], ["", " "]]}, r"text 2 \('b'\) has no reference"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"protocol": "plain", "hypotheses": ["a", "b"], "references": [["a"], ["b"]]} | change
    with pytest.raises(AggGenError, match=message):
        measure(**arguments)


def test_blank_references_favour_short_texts_in_multi_bleu() -> None:
    short, references = ["the fig is a"], [["the fig is a pub near the river and cheap", ""]]
    plain = bleu_statistics(short, references, tokenised=True).corpus()
    assert multi_bleu_statistics(short, references).corpus().value > plain.value
    assert multi_bleu_statistics(short, [references[0][:1]]).corpus().value == plain.value


@pytest.mark.parametrize(
    "content",
    [
        b"one\n\nthr\xc3\xa9\xe2\x80\xa8e\n",
        b"one\r\n\r\nthr\xc3\xa9\xe2\x80\xa8e",
        b"\xef\xbb\xbfone\n\nthr\xc3\xa9\xe2\x80\xa8e",
    ],
)
def test_texts_are_separated_by_line_feeds(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    assert read_texts(path, ["a", "b", "c"], "records.jsonl") == ["one", "", "thré\u2028e"]


def test_texts_as_json_lines_are_found_by_id(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": 2, "text": "Two\\nlines", "plan": "[a]"}\n\n{"id": "1", "text": ""}\n', encoding="utf-8")
    assert read_texts(path, ["1", "2"], "records.jsonl") == ["", "Two\nlines"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("texts.txt", None, "cannot read .*texts.txt: No such file"),
        ("texts.txt", b"", "texts.txt is empty"),
        ("texts.txt", b"one\n", "texts.txt ends after line 1, but records.jsonl has 2 records"),
        ("texts.txt", b"one\n2\n3\n4\n", r"texts.txt, line 3: no record for this line; .* 2 .*has 4 lines\)"),
        ("texts.txt", b"one\ntwo\n\n", "texts.txt, line 3: .*that line is blank"),
        ("texts.txt", b"one\nt\xffo\n", "texts.txt, line 2: not UTF-8 .*position 2"),
        ("texts.jsonl", b'{"id": "1"}', "line 1: needs an 'id' .string or integer. and a 'text'"),
        ("texts.jsonl", b'{"id": "9", "text": "a"}', "line 1, id '9': records.jsonl has no such record"),
        ("texts.jsonl", b'{"id": "1", "text": "a"}\n' * 2, "line 2, id '1': line 1 has the same id"),
        ("texts.jsonl", b'{"id": "1", "text": "a"}', "has no text for record '2' of records.jsonl"),
        ("texts.jsonl", b"\n", "has no text for record '1' and 1 more of records.jsonl"),
    ],
)
def test_invalid_texts_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        read_texts(path, ["1", "2"], "records.jsonl")


def record(number: int, text: str, **values: str) -> Record:
    triples = tuple(Triple("The Mill", name, value) for name, value in values.items())
    return Record(f"r{number}", triples, (Reference(text),))


RECORDS = [
    record(1, "The Mill is an Italian pub.", eatType="pub", food="Italian"),
    record(2, "The Mill is a pub by the riverside.", eatType="pub", area="riverside"),
    record(3, "The Mill is a coffee shop near Crowne Plaza Hotel.", eatType="coffee shop", near="Crowne Plaza Hotel"),
]
OUTPUTS = [
    "The Mill is a Chinese pub.",
    "The Mill is a pub.",
    "The Mill is a cheap coffee shop near Crowne Plaza Hotel.",
]
FOREIGN = Record("b", (Triple("Ann", "birthPlace", "Rome"),), (Reference("Ann was born in Rome."),))


def test_slot_errors_are_a_metric_of_e2e_for_its_own_predicates() -> None:
    assert metrics_of("e2e", None, RECORDS) == (*PROTOCOLS["e2e"], *VALUE_METRICS, "ser")
    assert "ser" not in metrics_of("e2e", None, [*RECORDS, FOREIGN])
    assert metrics_of("plain", None, RECORDS) == ("bleu", "chrf", "ter", *VALUE_METRICS)
    assert non_slot_predicate([*RECORDS, FOREIGN]) == "'birthPlace' of record 'b'"


def test_slot_statistics_give_corpus_segment_and_sample_scores() -> None:
    result = slot_statistics(RECORDS, OUTPUTS)
    assert result["ser.ser"].corpus().value == pytest.approx(100 * 3 / 9)
    assert result["ser.ser"].segment_scores == pytest.approx([100 / 3, 100 / 3, 100 / 3])
    twice_the_first = np.array([[2.0, 0.0, 0.0]])
    assert result["ser.wrong"].samples(twice_the_first) == pytest.approx([100 / 3])


def test_intervals_and_comparison() -> None:
    perfect = [item.references[0].text for item in RECORDS]
    result = measure_system("e2e", ["bleu", "ser"], RECORDS, OUTPUTS, perfect, confidence=True)
    assert list(result) == ["bleu", "ser.add", "ser.miss", "ser.wrong", "ser.ser"]
    for item in result.values():
        assert item.interval and item.comparison
        assert item.interval.low <= item.interval.value <= item.interval.high
        assert item.comparison.first == item.interval.value == item.statistics.corpus().value
    assert [result[name].comparison.second for name in ("bleu", "ser.ser")] == pytest.approx([100, 0])


def test_value_measures_of_two_systems_are_comparable() -> None:
    """Although their signatures differ in the counts by kind of match."""
    first = [*OUTPUTS[:2], "The Mill is a coffee shop near Crowne Plaza Hotel."]
    other = ["The Mill is an Italian pub.", "", ""]
    result = measure_system("plain", ["invented", "values_whole"], RECORDS, first, other)
    assert list(result) == ["invented", "values_whole"]
    assert all(item.interval is None for item in result.values())
    whole, invented = result["values_whole"].comparison, result["invented"].comparison
    assert (whole.first, whole.second) == (pytest.approx(400 / 6), pytest.approx(200 / 6))
    assert (invented.first, invented.second) == (pytest.approx(100 / 3), 0)
    assert re.search(r"\|lexicon:none\|triples:6\|said:literal \d,rule \d,lexicon 0,phrase 0\|", whole.signature)


def test_invalid_metrics_and_records_are_refused() -> None:
    with pytest.raises(AggGenError, match=r"no metric 'rouge'; it has bleu, nist, .*, cider, values_whole, .*, ser"):
        metrics_of("e2e", ["rouge"], RECORDS)
    with pytest.raises(AggGenError, match="3 records but 1 texts"):
        measure_system("plain", ["bleu"], RECORDS, ["a"])
    with pytest.raises(AggGenError, match="no records"):
        slot_statistics([], [])
    with pytest.raises(RecordError, match="record 'b': 'birthPlace' is not a slot of E2E"):
        measure_system("e2e", ["ser"], [FOREIGN], ["a"])


WORDS = [f"w{i}" for i in range(20)]


def noisy(references: list[list[str]], share: float, seed: int) -> list[str]:
    """The first reference of each text, in which a `share` of the words is replaced."""
    rng = np.random.default_rng(seed)
    words = [[str(rng.choice(WORDS)) if rng.random() < share else w for w in group[0].split()] for group in references]
    return list(map(" ".join, words))


@pytest.fixture(scope="module")
def references() -> list[list[str]]:
    rng = np.random.default_rng(7)
    return [[" ".join(rng.choice(WORDS, size=rng.integers(5, 15)))] for _ in range(300)]


def test_the_interval_of_a_mean_equals_the_normal_approximation() -> None:
    values = np.random.default_rng(1).normal(50, 10, size=400)
    result = confidence_interval(mean_statistics(values, "mean"), resamples=4000)
    error = 1.96 * values.std() / np.sqrt(len(values))
    assert result.value == pytest.approx(values.mean())
    assert (result.low, result.high) == pytest.approx((values.mean() - error, values.mean() + error), abs=0.15)


def test_only_different_systems_differ_significantly(references: list[list[str]]) -> None:
    systems = [noisy(references, share, seed) for share, seed in ((0.1, 1), (0.1, 2), (0.2, 3))]
    results = [measure("plain", texts, references, tokenised=True) for texts in systems]
    for metric in ("bleu", "chrf", "ter"):
        first, equal, worse = (result[metric] for result in results)
        assert paired_bootstrap(first, first).p_value == 1
        different, similar = paired_bootstrap(first, worse), paired_bootstrap(first, equal)
        assert different.p_value < 0.01
        assert similar.p_value > 0.05
        assert different.low <= different.difference <= different.high
        assert different.low * different.high > 0  # the interval excludes 0
        assert similar.low < 0 < similar.high


@pytest.mark.parametrize("share", [0.10, 0.11, 0.12])
def test_p_values_agree_with_sacrebleu(references: list[list[str]], share: float) -> None:
    """Only approximately: a bootstrap test here, approximate randomisation in sacreBLEU."""
    systems = [("first", noisy(references, 0.1, 4)), ("second", noisy(references, share, 5))]
    columns, metrics = [[group[0] for group in references]], {"BLEU": BLEU(tokenize="none", force=True)}
    expected = PairedTest(systems, metrics, columns, test_type="ar", n_samples=2000, n_jobs=1)()[1]["BLEU"][1]
    first, second = (measure("plain", texts, references, ["bleu"], tokenised=True)["bleu"] for _, texts in systems)
    assert second.corpus().value == expected.score
    assert paired_bootstrap(first, second, resamples=2000).p_value == pytest.approx(expected.p_value, abs=0.06)


def test_intervals_depend_on_the_seed(references: list[list[str]]) -> None:
    bleu = measure("plain", noisy(references, 0.3, 1), references, ["bleu"])["bleu"]
    assert confidence_interval(bleu) == confidence_interval(bleu)
    assert confidence_interval(bleu, seed=1).low != confidence_interval(bleu, seed=2).low
    remark = "level:0.95|resamples:1000|seed:3"
    assert confidence_interval(bleu, seed=3).signature.endswith(f"|ci:bootstrap-percentile|{remark}")
    assert paired_bootstrap(bleu, bleu, seed=3).signature.endswith(f"|test:paired-bootstrap|{remark}")


@pytest.mark.parametrize(
    ("size", "metric", "message"),
    [(3, "mean", "have 2 and 3 texts"), (2, "another", "metrics differ: mean.* and another")],
)
def test_systems_that_are_not_comparable_are_refused(size: int, metric: str, message: str) -> None:
    with pytest.raises(AggGenError, match=message):
        paired_bootstrap(mean_statistics(np.ones(2), "mean"), mean_statistics(np.ones(size), metric))
