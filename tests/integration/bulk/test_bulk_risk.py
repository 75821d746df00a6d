"""Bulk generation with a critic: columns, review of the riskiest texts, resumption."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agggen.checks import RISK_THRESHOLD, check_all
from agggen.errors import ConfigError, CorpusError
from agggen_platform.bulk.model import Model, load_generator
from agggen_platform.bulk.rows import SCORES
from agggen_platform.storage.critics import open_critic
from tests.bulk_jobs import RECORDS, Bulk, in_process, numbered_records, texts, write_jsonl
from tests.command import command

SETTINGS = ("critic=included", "n_best=2", "inference.verify=off")


def library_scores(model: Model) -> list[Mapping[str, float]]:
    generator, config = load_generator(model.address, model.fingerprint, "cpu"), in_process(model, *SETTINGS)
    records = list(numbered_records(RECORDS))
    generated = generator.generate(records, None, False, 2, config.inference)
    pairs = [(record, text.text) for record, texts in zip(records, generated, strict=True) for text in texts]
    checks = check_all([record for record, _ in pairs], [text for _, text in pairs])
    return [{"risk": check.risk} | check.scores for check in checks]


def test_scores_of_texts_equal_the_librarys(bulk: Bulk) -> None:
    report = bulk(*SETTINGS, single_file=True, review=5)
    rows, scores = texts(bulk.out), library_scores(bulk.model)
    assert len(rows) == len(scores) == 2 * RECORDS
    for row, expected_scores in zip(rows, scores, strict=True):
        assert {name: row[name] for name in SCORES} == pytest.approx(expected_scores, abs=2e-4)
    assert report.summary.risky == sum(float(str(row["risk"])) > RISK_THRESHOLD for row in rows if row["rank"] == 1)
    assert pq.read_table(bulk.out / "texts.parquet").to_pylist() == rows
    riskiest = sorted(rows, key=lambda row: (-float(str(row["risk"])), row["row"], row["rank"]))[:5]
    assert [(checked.record.id, checked.text) for checked in report.review] == [
        (row["id"], row["text"]) for row in riskiest
    ]
    assert report.review[0].risk == pytest.approx(riskiest[0]["risk"], abs=2e-4)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_the_command_also_reviews_a_finished_job(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    rows = "".join(f'{n % 3},"E{n}",symbol,"S{n % 3}"\n' for n in (0, 1, 2)) + '0,"E0",period,"5"\n'
    (tmp_path / "in.csv").write_text(f"id,subject,predicate,object\n{rows}", encoding="utf-8")  # copied by the driver
    run, arguments = command(capsys), ["bulk", model.address, tmp_path / "in.csv", "--out", tmp_path / "out"]
    settings = ["--actors", "0", "--runs", tmp_path / "runs", "critic=included", f"format={form}", "--worst", "2"]
    code, _, err = run(*arguments, *settings, "--review", tmp_path / "first.csv")
    assert code == 0, err
    assert f"of 3 records have a risk over {RISK_THRESHOLD}" in err
    assert f"agggen adapt {model.address} {tmp_path}/first.csv" in err
    code, _, err = run(*arguments, *settings, "--review", tmp_path / "second.csv")
    assert (code, "already has the texts" in err) == (0, True)
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()
    with (tmp_path / "first.csv").open(encoding="utf-8-sig", newline="") as file:
        reviewed = list(csv.DictReader(file))
    assert len(reviewed) == 2
    for row in reviewed:
        assert ["E" + row["id"], "symbol", "S" + row["id"]] in json.loads(row["triples"])
    assert not list((tmp_path / "out" / ".work").glob("input/*"))


def test_a_part_without_texts_is_reviewed(bulk: Bulk, tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(2))
    source.write_text(8 * "{}\n" + source.read_text())
    report = bulk("critic=included", "format=jsonl", "max_reject_share=0.9", source=source, review=5)
    assert sorted(checked.record.id for checked in report.review) == ["r0", "r1"]


def test_a_review_needs_a_critic(bulk: Bulk) -> None:
    with pytest.raises(ConfigError, match="set critic=included"):
        bulk(review=5)


def test_another_critic_is_another_job(bulk: Bulk, tmp_path: Path) -> None:
    open_critic("included")[0].save(tmp_path / "critic")
    source = write_jsonl(tmp_path / "in.jsonl", numbered_records(8))
    bulk(f"critic={tmp_path / 'critic'}", source=source)
    description = json.loads((tmp_path / "critic" / "critic.json").read_text())
    (tmp_path / "critic" / "critic.json").write_text(json.dumps(description | {"temperature": 2.0}))
    with pytest.raises(CorpusError, match=r"contains another job's texts \(critic:"):
        bulk(f"critic={tmp_path / 'critic'}", source=source)
