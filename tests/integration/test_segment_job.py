"""The segmentation job: output, invalid input, rejects, resumption, and a damaged cache; locally and on S3."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from agggen.alignment import align
from agggen.config import load_config
from agggen.corpora.prepared import read_records, schema, write_records
from agggen.datasets import Dataset, load_dataset
from agggen.errors import CorpusError
from agggen.facts import FactSegmenter
from agggen.facts.clauses import ClauseSegmenter
from agggen.facts.config import SegmenterConfig, segmenter
from agggen.records import Fact, Record, Reference
from agggen.run import RunConfig
from agggen.training.data import training_data
from agggen_platform.evaluation import catalogue_names
from agggen_platform.segmentation import job as job_module
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import Progress, segment
from agggen_platform.sharded.config import JobError
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import interrupt_after, rejects


def clause_config(**settings: Any) -> SegmentConfig:
    """A job in this process with the fast rule-based segmenter."""
    return SegmentConfig(**{"facts": SegmenterConfig(source="clauses"), "actors": 0, "shard_rows": 20} | settings)


LOCAL = clause_config()


def segmented(records: Sequence[Record], segmenter: FactSegmenter | None = None) -> list[Record]:
    """The records with facts: a reference implementation of the job without shards, cache or actors."""
    segmenter = segmenter or ClauseSegmenter()
    result = []
    for record in records:
        references = []
        for reference in record.references:
            (facts,) = segmenter.segment([reference.text])
            fact_of = align(record, facts).fact_of
            predicates = [
                tuple(name for name, fact in zip(record.predicates, fact_of, strict=True) if fact == number)
                for number in range(len(facts))
            ]
            facts_with_predicates = tuple(Fact(text, names) for text, names in zip(facts, predicates, strict=True))
            references.append(Reference(reference.text, facts_with_predicates, reference.plan))
        result.append(Record(record.id, record.triples, tuple(references), record.category))
    return result


class Recorder(ClauseSegmenter):
    """The rule-based segmenter; records its texts, and fails on texts that contain `bad`."""

    def __init__(self, bad: str | None = None) -> None:
        self.bad, self.texts_seen = bad, list[str]()

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        self.texts_seen += texts
        if self.bad and any(self.bad in text for text in texts):
            raise RuntimeError("cannot segment this text")
        return super().segment(texts)


def use_segmenter(monkeypatch: pytest.MonkeyPatch, segmenter: ClauseSegmenter) -> None:
    monkeypatch.setattr(job_module, "segmenter", lambda name: segmenter)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 training and 72 development records of the shipped corpus, prepared."""
    folder, elements = tmp_path_factory.mktemp("corpus"), load_dataset("elements")
    Dataset("elements", {"train": elements.train[:150], "dev": elements.dev}).save(folder)
    return folder


def test_the_parts_equal_the_reference_implementation(corpus: Path, tmp_path: Path) -> None:
    report = segment(str(corpus), str(tmp_path), LOCAL)
    expected = {split: segmented(read_records(corpus / f"{split}.parquet")) for split in ("train", "dev")}
    for split, records in expected.items():
        assert read_records(tmp_path / split) == records
        assert report.splits[split].records == len(records)
        assert report.splits[split].facts == sum(len(r.facts or ()) for record in records for r in record.references)
    assert not (tmp_path / "rejects").exists()
    parts = sorted((tmp_path / "train").iterdir())
    assert len(parts) == 8  # 150 rows in shards of 20
    assert [tmp_path / part.name for part in report.splits["train"].parts] == parts
    assert [record for part in parts for record in read_records(part)] == expected["train"]
    data = load_dataset(str(tmp_path))
    assert (list(data.splits), data.train) == (["train", "dev"], expected["train"])
    assert pads.dataset(tmp_path / "train").count_rows() == 150  # any engine reads the folder
    overrides = [f"corpus.name={tmp_path}", "facts.source=corpus"]
    assert training_data(load_config(RunConfig, None, overrides)).train == expected["train"]
    assert catalogue_names(str(tmp_path), "dev") == ("elements", "dev")


def test_a_missing_or_changed_part_is_refused(corpus: Path, tmp_path: Path) -> None:
    segment(str(corpus), str(tmp_path), LOCAL)
    part = sorted((tmp_path / "dev").iterdir())[1]
    content = part.read_bytes()
    for damaged in (content[:-1], content.replace(b"elements", b"elementz")):
        part.write_bytes(damaged)
        with pytest.raises(CorpusError, match=str(part)):
            load_dataset(str(tmp_path))
    part.unlink()
    with pytest.raises(CorpusError, match=rf"{part} is not the file that manifest.json lists; run agggen segment"):
        load_dataset(str(tmp_path))
    assert len(load_dataset(str(tmp_path), splits=["train"]).train) == 150


def test_output_of_earlier_versions_still_loads(corpus: Path, tmp_path: Path) -> None:
    """Earlier versions wrote one file SPLIT.parquet per split."""
    manifest = {"job": "old", "splits": {"dev": {"bytes": 1, "parts": 4, "fingerprint": "x"}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(corpus / "dev.parquet", tmp_path / "dev.parquet")
    assert len(load_dataset(str(tmp_path)).dev) == 72


def test_without_alignment_predicates_are_unknown(corpus: Path, tmp_path: Path) -> None:
    segment(str(corpus), str(tmp_path), clause_config(alignment="none"), splits=["dev"])
    facts = [fact for r in read_records(tmp_path / "dev") for ref in r.references for fact in ref.facts or ()]
    assert facts
    assert {fact.predicates for fact in facts} == {None}


def test_each_distinct_text_of_a_shard_is_segmented_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = load_dataset("elements").dev[:1]
    records = [Record(f"{record.id}-{number}", record.triples, record.references) for number in range(10)]
    write_records(tmp_path / "dev.parquet", records, "x", "dev")
    recorder = Recorder()
    use_segmenter(monkeypatch, recorder)
    report = segment(str(tmp_path / "dev.parquet"), str(tmp_path / "out"), LOCAL)
    assert sorted(recorder.texts_seen) == sorted({reference.text for reference in record.references})
    assert report.splits["dev"].references == 10 * len(record.references)


def test_actors_write_the_same_bytes_in_the_same_order(corpus: Path, tmp_path: Path, ray_cluster: None) -> None:
    local = segment(str(corpus), str(tmp_path / "here"), LOCAL)
    reported: list[Progress] = []
    result = segment(str(corpus), str(tmp_path / "there"), clause_config(actors=3), progress=reported.append)
    assert result.splits == local.splits  # including the fingerprints of the files
    assert [progress.shards for progress in reported] == list(range(1, len(reported) + 1))
    assert reported[-1].shards == reported[-1].total == 8 + 4


def test_the_shipped_tagger_segments_by_default(corpus: Path, tmp_path: Path, ray_cluster: None) -> None:
    config = SegmentConfig(actors=2, shard_rows=40, cache="off")
    segment(str(corpus), str(tmp_path), config, splits=["dev"])
    expected = segmented(read_records(corpus / "dev.parquet"), segmenter("embedded"))
    assert read_records(tmp_path / "dev") == expected
    assert expected != segmented(read_records(corpus / "dev.parquet"), ClauseSegmenter())


def test_actors_share_a_cache_whose_damage_does_not_change_the_output(
    corpus: Path, tmp_path: Path, ray_cluster: None
) -> None:
    config = clause_config(actors=2, cache="on", cache_dir=str(tmp_path / "cache"))
    reports = []
    for out in ("first", "second", "damaged"):
        if out == "damaged":
            (file,) = (tmp_path / "cache").iterdir()  # no journal file
            file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
        reports.append(segment(str(corpus), str(tmp_path / out), config, splits=["dev"]))
    first, second, damaged = (report.progress.counts for report in reports if report.progress is not None)
    assert reports[0].splits == reports[1].splits == reports[2].splits
    assert first.cache_errors == second.cache_errors == 0 < damaged.cache_errors
    assert first.segmented > 0
    assert (second.segmented, second.cached) == (0, first.segmented + first.cached)


def test_an_interrupted_job_is_resumed(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        segment(str(corpus), str(tmp_path), LOCAL, progress=interrupt_after(5))
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith((".tmp", "manifest.json"))]
    with pytest.raises(CorpusError, match=f"the folder {tmp_path} is the output of an unfinished job"):
        load_dataset(str(tmp_path))
    report = segment(str(corpus), str(tmp_path), LOCAL)
    assert report.progress is not None
    assert (report.progress.reused, report.progress.total) == (5, 12)
    for split in ("train", "dev"):
        assert read_records(tmp_path / split) == segmented(read_records(corpus / f"{split}.parquet"))


def test_from_s3_to_s3(corpus: Path, s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("agggen_platform.storage.claim.HEARTBEAT_SECONDS", 1.0)
    bucket = Folder(f"{s3}/corpora")
    for split in ("train", "dev"):
        bucket.write(f"in/{split}.parquet", (corpus / f"{split}.parquet").read_bytes())
    local = segment(str(corpus), str(tmp_path / "here"), LOCAL)
    result = segment(f"{s3}/corpora/in", f"{s3}/corpora/out", LOCAL)
    assert result.splits == local.splits
    assert load_dataset(f"{s3}/corpora/out").splits == load_dataset(str(tmp_path / "here")).splits
    assert segment(f"{s3}/corpora/in/", f"{s3}/corpora/out/", LOCAL).was_already_finished
    assert "out/.claim" not in bucket.names()


def test_input_that_is_not_a_corpus_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "triples": [[]], "references": [[]]}), tmp_path / "typed.parquet")
    for name, message in (
        ("gone.parquet", "does not exist"),
        ("typed.parquet", "'id' is int64, it should be"),
        ("folder", "contains no SPLIT.parquet"),
    ):
        with pytest.raises(CorpusError, match=message):
            segment(str(tmp_path / name), str(tmp_path / "out"), LOCAL)
    assert not (tmp_path / "out").exists()


def test_bad_rows_and_texts_are_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out, undamaged = tmp_path / "dev.parquet", tmp_path / "out", load_dataset("elements").dev[:6]
    write_records(path, undamaged, "x", "dev")
    rows = pq.read_table(path).to_pylist()
    rows[1]["id"] = ""
    rows[3]["id"] = f" {undamaged[2].id} "  # the id of a record in another shard
    rows[4]["triples"][0]["object"] = "bell \x07"
    rows[5]["references"][0]["text"] = " "
    pq.write_table(pa.Table.from_pylist(rows, schema()), path)
    with pytest.raises(JobError, match=r"4 of 12 texts were rejected \(33.3%, max_reject_share is 1.0%"):
        segment(str(path), str(out), clause_config(shard_rows=3))
    assert not (out / "manifest.json").exists()
    first_rejects, recorder = rejects(out), Recorder()
    use_segmenter(monkeypatch, recorder)
    report = segment(str(path), str(out), clause_config(shard_rows=3, max_reject_share=0.5))
    assert (rejects(out), recorder.texts_seen) == (first_rejects, [])  # nothing is segmented again
    reasons = ["id is empty", "occurs a second time, first in row 2", "control character", "reference 1: a reference"]
    for reject, row, reason in zip(first_rejects, (1, 3, 4, 5), reasons, strict=True):
        assert (reject["file"], reject["line"], reject["id"]) == (str(path), row, rows[row]["id"])
        assert reason in str(reject["reason"])
    records = read_records(out / "dev")
    assert [record.id for record in records] == [undamaged[0].id, undamaged[2].id, undamaged[5].id]
    assert len(records[-1].references) == len(undamaged[5].references) - 1
    split_report = report.splits["dev"]
    assert (split_report.rows, split_report.records, split_report.rejects) == (6, 3, 4)


def test_a_text_on_which_the_segmenter_fails_is_a_reject_that_is_retried(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = read_records(corpus / "dev.parquet")
    bad_text = records[7].references[1].text
    use_segmenter(monkeypatch, Recorder(bad_text))
    assert segment(str(corpus), str(tmp_path / "loose"), LOCAL, splits=["dev"]).splits["dev"].rejects == 1
    (reject,) = rejects(tmp_path / "loose")
    assert (reject["line"], reject["reason"]) == (7, "reference 2: RuntimeError: cannot segment this text")
    remaining = [
        reference for record in segmented(records) for reference in record.references if reference.text != bad_text
    ]
    assert [reference for r in read_records(tmp_path / "loose/dev") for reference in r.references] == remaining

    strict, out = clause_config(max_reject_share=0), tmp_path / "strict"
    with pytest.raises(JobError, match="1 of 216 texts were rejected"):
        segment(str(corpus), str(out), strict, splits=["dev"])
    recorder = Recorder()
    use_segmenter(monkeypatch, recorder)
    progress = segment(str(corpus), str(out), strict, splits=["dev"]).progress
    assert progress is not None and (progress.reused, progress.total) == (3, 4)
    assert bad_text in recorder.texts_seen
    assert read_records(out / "dev") == segmented(records)


def test_a_segmenter_that_always_fails_ends_the_job(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shortening(ClauseSegmenter):
        def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
            return [(text[:-1],) for text in texts]

    use_segmenter(monkeypatch, Shortening())
    with pytest.raises(JobError, match=r"failed on all 5\d texts of a batch; on the first: .*not concatenate"):
        segment(str(corpus), str(tmp_path), LOCAL, splits=["dev"])
    assert not (tmp_path / "manifest.json").exists()
