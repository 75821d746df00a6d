"""The text metrics of a report: which are wanted, what happens to those that cannot be computed, scores of parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agggen.corpora.elements import elements_records
from agggen.errors import AggGenError, ConfigError
from agggen.evaluation import protocols
from agggen.evaluation.protocols import score_texts
from agggen.evaluation.report import texts as report_texts
from agggen.evaluation.report import write_report
from agggen.evaluation.report.of_texts import report_of_texts
from agggen.evaluation.report.texts import Wanted, protocol_of, text_scores
from agggen.evaluation.segments import SegmentStatistics
from agggen.records import Record

RECORDS = list(elements_records("dev"))[:24]
TEXTS = [record.references[0].text.replace(" a ", " the ") for record in RECORDS]
REFERENCES = [[reference.text for reference in record.references[1:]] for record in RECORDS]
SCORED = [
    Record(record.id, record.triples, record.references[1:], "metal" if number % 2 else "gas")
    for number, record in enumerate(RECORDS)
]


def without(monkeypatch: pytest.MonkeyPatch, *broken: str) -> list[Sequence[str] | None]:
    """Makes some metrics fail as METEOR does without Java; returns what was asked for."""
    asked: list[Sequence[str] | None] = []

    def measure(
        protocol: str,
        hypotheses: Sequence[str],
        references: Sequence[Sequence[str]],
        metrics: Sequence[str] | None = None,
    ) -> dict[str, SegmentStatistics]:
        asked.append(metrics)
        if protocol != "plain" and set(broken) & set(metrics or protocols.PROTOCOLS[protocol]):
            raise AggGenError("METEOR needs a Java runtime")
        return protocols.measure(protocol, hypotheses, references, metrics)

    monkeypatch.setattr(report_texts, "measure", measure)
    return asked


def test_a_protocol_comes_before_plain_sacrebleu_with_intervals_and_scores_of_each_text() -> None:
    wanted = Wanted("webnlg-2017", meteor=False)
    found = text_scores(wanted, SCORED, TEXTS)
    assert [section.key for section in found.sections] == ["webnlg-2017", "plain"]
    expected = score_texts("webnlg-2017", TEXTS, REFERENCES, ["bleu", "ter"])
    for measure in found.sections[0].measures:
        if measure.name == "meteor":
            assert (measure.score, measure.reason) == (None, "--no-meteor was given")
            continue
        assert measure.score == expected[measure.name]
        assert measure.interval is not None
        assert measure.interval[0] < measure.score.value < measure.interval[1]
    assert {"webnlg-2017/bleu", "webnlg-2017/ter", "plain/bleu", "plain/chrf", "plain/ter"} == set(found.single)
    assert all(len(values) == len(TEXTS) for values in found.single.values())


def test_plain_alone_is_reported_once() -> None:
    assert [section.key for section in text_scores(Wanted(), SCORED, TEXTS).sections] == ["plain"]
    (only,) = text_scores(Wanted("plain", ("chrf",)), SCORED, TEXTS).sections
    assert [measure.name for measure in only.measures] == ["chrf"]


def test_one_record_has_scores_but_no_intervals() -> None:
    (section,) = text_scores(Wanted(), SCORED[:1], TEXTS[:1]).sections
    assert all(measure.score is not None and measure.interval is None for measure in section.measures)


def test_a_metric_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = without(monkeypatch, "meteor")
    section = text_scores(Wanted("webnlg-2017"), SCORED, TEXTS).sections[0]
    reasons = {measure.name: measure.reason for measure in section.measures}
    assert reasons == {"bleu": "", "meteor": "METEOR needs a Java runtime", "ter": ""}
    assert asked[1:] == [("bleu", "meteor", "ter"), ["bleu"], ["meteor"], ["ter"]]


def test_a_metric_that_was_asked_for_fails_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "meteor")
    monkeypatch.setattr(report_texts.shutil, "which", lambda name: "java")
    with pytest.raises(AggGenError, match="needs a Java runtime"):
        text_scores(Wanted("webnlg-2017", ("meteor",)), SCORED, TEXTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("webnlg",), "there is no protocol 'webnlg'; there are plain, e2e, webnlg-2017"),
        (("e2e", ("ter",)), "protocol e2e has no metric 'ter'; it has bleu, nist"),
        (("e2e", ()), "no metric is named; protocol e2e has bleu"),
        (("e2e", ("meteor",), False), "exclude each other"),
    ],
)
def test_what_does_not_exist_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Wanted(*arguments)  # type: ignore[arg-type]


def test_what_needs_java_is_refused_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_texts, "package_version", lambda: "1.2")
    monkeypatch.setattr(report_texts.shutil, "which", lambda name: None)
    Wanted("e2e")  # nobody asked for METEOR
    Wanted("e2e", ("bleu",))
    with pytest.raises(ConfigError, match="cider needs a Java runtime"):
        Wanted("e2e", ("bleu", "cider"))


def test_corpora_have_the_protocols_of_their_published_scores() -> None:
    names = ("webnlg", "webnlg-1.6", "e2e", "e2e-cleaned", "elements", "my restaurants")
    assert [protocol_of(name) for name in names] == ["webnlg-2017"] * 2 + ["e2e"] * 2 + ["plain"] * 2


# --- a report on somebody's texts ------------------------------------------------------------------------------------


def test_any_systems_texts_can_be_reported_on(tmp_path: Path) -> None:
    report = report_of_texts("Theirs", {"texts": "ab12"}, {"system": "theirs"}, SCORED, TEXTS, seed=3)
    assert [section.key for section in report.sections] == ["plain", "faithfulness", "diversity"]
    assert report.groups is None  # their plans are not known
    assert report.by_triples is not None
    assert report.by_category is not None
    write_report(tmp_path / "r", report)
    assert (tmp_path / "r" / "report.html").is_file()
    with pytest.raises(AggGenError, match="24 records but 23 texts"):
        report_of_texts("Theirs", {}, {}, SCORED, TEXTS[1:])


def test_scores_of_parts_are_those_of_the_parts_alone() -> None:
    table = report_of_texts("Theirs", {}, {}, SCORED, TEXTS).by_category
    assert table is not None
    for part in table.as_dicts():
        places = [place for place, record in enumerate(SCORED) if record.category == part["category"]]
        alone = score_texts("plain", [TEXTS[i] for i in places], [REFERENCES[i] for i in places], ["bleu", "chrf"])
        assert part["records"] == len(places) == 12
        assert part["BLEU"] == pytest.approx(alone["bleu"].value)
        assert part["chrF"] == pytest.approx(alone["chrf"].value)
