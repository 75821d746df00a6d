"""The segmentation job from Parquet to Parquet: what it writes, refuses, repeats and continues, here and on S3."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agggen.alignment import align
from agggen.corpora.catalogue import load
from agggen.corpora.prepared import read_records, schema, write_records
from agggen.corpora.rejects import split_rejects
from agggen.errors import AggGenError, CorpusError
from agggen.facts.clauses import ClauseSegmenter
from agggen.records import Fact, Record, Reference
from agggen_platform.segmentation import job as job_module
from agggen_platform.segmentation import worker as worker_module
from agggen_platform.segmentation.config import SegmentationError, SegmentConfig
from agggen_platform.segmentation.job import Progress, SegmentReport, segment
from agggen_platform.segmentation.rows import segmented_schema
from agggen_platform.segmentation.worker import ATTEMPTS
from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder

HERE = SegmentConfig(actors=0, shard_rows=20)


def elements(split: str) -> list[Record]:
    return split_rejects(load("elements", split))[0]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for split in ("train", "dev"):
        records = elements(split)[:150]
        write_records(folder / f"{split}.parquet", records, "elements", split)
    return folder


def expected(records: Sequence[Record]) -> list[Record]:
    """The plain loop that the job replaces."""
    cut = ClauseSegmenter()
    result = []
    for record in records:
        references = []
        for reference in record.references:
            (facts,) = cut.segment([reference.text])
            fact_of = align(record, facts).fact_of
            said = [
                tuple(name for name, fact in zip(record.predicates, fact_of, strict=True) if fact == t)
                for t in range(len(facts))
            ]
            facts_said = tuple(Fact(text, names) for text, names in zip(facts, said, strict=True))
            references.append(Reference(reference.text, facts_said, reference.plan))
        result.append(Record(record.id, record.triples, tuple(references), record.category))
    return result


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


class Counting(ClauseSegmenter):
    """Clauses; says what it was asked for, and fails on some texts."""

    def __init__(self, bad: str | None = None) -> None:
        self.bad, self.seen = bad, list[str]()

    def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        self.seen += texts
        if self.bad and any(self.bad in text for text in texts):
            raise RuntimeError("this text is beyond me")
        return super().segment(texts)


def use(monkeypatch: pytest.MonkeyPatch, cut: ClauseSegmenter) -> None:
    monkeypatch.setattr(job_module, "segmenter", lambda name: cut)


# --- what it writes ------------------------------------------------------------------------------------------------


def test_the_result_is_that_of_a_plain_loop(corpus: Path, tmp_path: Path) -> None:
    report = segment(str(corpus), str(tmp_path / "out"), HERE)
    for split in ("train", "dev"):
        wanted = expected(read_records(corpus / f"{split}.parquet"))
        assert read_records(tmp_path / "out" / f"{split}.parquet") == wanted
        assert report.splits[split].records == len(wanted)
        assert report.splits[split].facts == sum(len(r.facts or ()) for record in wanted for r in record.references)
    assert (tmp_path / "out" / "rejects.jsonl").read_text() == ""


def test_the_shards_hold_every_row_once_with_offsets(corpus: Path, tmp_path: Path) -> None:
    segment(str(corpus), str(tmp_path), HERE, splits=["train"])
    parts = sorted((tmp_path / "facts" / "train").iterdir())
    assert len(parts) == 8  # 150 rows by twenties
    assert all(pq.read_schema(part).equals(segmented_schema()) for part in parts)
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert [row["row"] for row in rows] == list(range(150))
    assert [row["id"] for row in rows] == [record.id for record in read_records(corpus / "train.parquet")]
    for reference in (reference for row in rows for reference in row["references"]):
        assert reference["error"] is None
        assert [reference["text"][fact["start"] : fact["end"]] for fact in reference["facts"]] == [
            fact["text"] for fact in reference["facts"]
        ]
        assert reference["facts"][-1]["end"] == len(reference["text"])


def test_without_alignment_predicates_are_unknown(corpus: Path, tmp_path: Path) -> None:
    segment(str(corpus), str(tmp_path), SegmentConfig(actors=0, alignment="none"), splits=["dev"])
    facts = [fact for r in read_records(tmp_path / "dev.parquet") for ref in r.references for fact in ref.facts or ()]
    assert facts
    assert {fact.predicates for fact in facts} == {None}


def test_every_different_text_of_a_shard_is_segmented_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = elements("dev")[:1]
    records = [Record(f"{one.id}-{number}", one.triples, one.references) for number in range(10)]
    write_records(tmp_path / "dev.parquet", records, "x", "dev")
    cut = Counting()
    use(monkeypatch, cut)
    report = segment(str(tmp_path / "dev.parquet"), str(tmp_path / "out"), HERE)
    assert sorted(cut.seen) == sorted({reference.text for reference in one.references})
    assert report.splits["dev"].references == 10 * len(one.references)


def test_actors_write_the_same_bytes_in_the_same_order(corpus: Path, tmp_path: Path, ray_cluster: None) -> None:
    here = segment(str(corpus), str(tmp_path / "here"), HERE)
    seen: list[Progress] = []
    there = segment(str(corpus), str(tmp_path / "there"), SegmentConfig(actors=3, shard_rows=20), progress=seen.append)
    assert there.splits == here.splits  # with the files' fingerprints
    assert [one.shards for one in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].shards == seen[-1].total == 8 + 4


# --- again, and something else ---------------------------------------------------------------------------------------


def test_a_finished_job_is_not_done_again(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment(str(corpus), str(tmp_path), HERE)
    before = snapshot(tmp_path)
    cut = Counting()
    use(monkeypatch, cut)
    quicker = SegmentConfig(actors=0, shard_rows=50, batch_size=7)  # what changes only the speed is the same job
    report = segment(str(corpus), str(tmp_path), quicker)
    assert report.finished_before
    assert cut.seen == []
    assert {k: v for k, v in snapshot(tmp_path).items() if k != ".claim"} == {
        k: v for k, v in before.items() if k != ".claim"
    }
    assert not segment(str(corpus), str(tmp_path), quicker, fresh=True).finished_before
    assert cut.seen
    assert len(list((tmp_path / "facts" / "train").iterdir())) == 3  # 150 rows by fifties, nothing left of before


def test_a_damaged_result_is_done_again(corpus: Path, tmp_path: Path) -> None:
    segment(str(corpus), str(tmp_path), HERE)
    good = read_records(tmp_path / "dev.parquet")
    (tmp_path / "dev.parquet").write_bytes(b"half")
    part = tmp_path / "facts" / "dev" / "00001.parquet"
    part.write_bytes(part.read_bytes()[:100])
    report = segment(str(corpus), str(tmp_path), HERE)
    assert not report.finished_before
    assert report.progress is not None
    assert report.progress.found == report.progress.total - 1
    assert read_records(tmp_path / "dev.parquet") == good


def test_another_jobs_output_is_refused_and_replaced_when_told(corpus: Path, tmp_path: Path) -> None:
    segment(str(corpus), str(tmp_path), HERE)
    before = snapshot(tmp_path)
    sentences = SegmentConfig(facts="sentences", actors=0)
    with pytest.raises(
        CorpusError, match=r"another job's facts \(facts: clauses-\w+ there, sentences-\w+ now\).*fresh"
    ):
        segment(str(corpus), str(tmp_path), sentences)
    assert snapshot(tmp_path)["train.parquet"] == before["train.parquet"]
    (tmp_path / "notes.txt").write_text("mine")
    segment(str(corpus), str(tmp_path), sentences, splits=["dev"], fresh=True)
    assert not (tmp_path / "train.parquet").exists()
    assert not (tmp_path / "facts" / "train" / "00000.parquet").exists()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_no_job_wrote_is_never_touched(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"precious")
    for fresh in (False, True):
        with pytest.raises(CorpusError, match=r"holds train\.parquet, which no segmentation wrote"):
            segment(str(corpus), str(tmp_path), HERE, fresh=fresh)
    assert (tmp_path / "train.parquet").read_bytes() == b"precious"
    with pytest.raises(CorpusError, match="is the folder of the input"):
        segment(str(corpus), str(corpus), HERE)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.parquet", None, "does not exist"),
        ("text.parquet", b"no parquet at all", "is not a Parquet file"),
        ("other.parquet", pa.table({"id": ["a"]}), "no column 'triples'"),
        ("typed.parquet", pa.table({"id": [1], "triples": [[]], "references": [[]]}), "'id' is int64, it should be"),
        ("folder", None, "holds no Parquet files"),
    ],
)
def test_input_that_is_no_corpus(name: str, content: bytes | pa.Table | None, message: str, tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        pq.write_table(content, tmp_path / name)
    with pytest.raises(CorpusError, match=message):
        segment(str(tmp_path / name), str(tmp_path / "out"), HERE)
    assert not (tmp_path / "out").exists()


# --- rejects ---------------------------------------------------------------------------------------------------------


def with_bad_rows(path: Path) -> list[Record]:
    """A corpus whose rows 1, 3 and 4 are no records and one of whose texts is blank."""
    good = elements("dev")[:6]
    write_records(path, good, "x", "dev")
    rows = pq.read_table(path).to_pylist()
    rows[1]["id"] = ""
    rows[3]["triples"] = []
    rows[4]["triples"][0]["object"] = "bell \x07"
    rows[5]["references"][0]["text"] = " "
    pq.write_table(pa.Table.from_pylist(rows, schema()), path)
    return good


def test_bad_rows_and_texts_are_rejects(tmp_path: Path) -> None:
    good = with_bad_rows(tmp_path / "dev.parquet")
    out = tmp_path / "out"
    report = segment(str(tmp_path / "dev.parquet"), str(out), SegmentConfig(actors=0, max_reject_share=0.5))
    rejects = [json.loads(line) for line in (out / "rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["id"]) for reject in rejects] == [
        (1, ""),
        (3, good[3].id),
        (4, good[4].id),
        (5, good[5].id),
    ]
    assert [reject["file"] for reject in rejects] == [f"{tmp_path}/dev.parquet"] * 4
    for reject, reason in zip(
        rejects, ["id is empty", "no triples", "control character", "reference 1: a reference"], strict=True
    ):
        assert reason in reject["reason"]
    records = read_records(out / "dev.parquet")
    assert [record.id for record in records] == [good[0].id, good[2].id, good[5].id]
    assert len(records[-1].references) == len(good[5].references) - 1
    rows = pq.read_table(out / "facts" / "dev" / "00000.parquet").to_pylist()
    assert [bool(row["error"]) for row in rows] == [False, True, False, True, True, False]
    assert [bool(reference["error"]) for reference in rows[5]["references"]] == [True, False, False]
    assert report.splits["dev"].rejects == 4


def test_too_many_rejects_publish_nothing_but_the_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_bad_rows(tmp_path / "dev.parquet")
    out = tmp_path / "out"
    with pytest.raises(SegmentationError, match=r"4 of 12 texts were rejected \(33.3%, at most 1.0% allowed"):
        segment(str(tmp_path / "dev.parquet"), str(out), HERE)
    assert len((out / "rejects.jsonl").read_text().splitlines()) == 4
    assert not (out / "dev.parquet").exists()
    assert not (out / "manifest.json").exists()
    cut = Counting()
    use(monkeypatch, cut)
    segment(str(tmp_path / "dev.parquet"), str(out), SegmentConfig(actors=0, shard_rows=20, max_reject_share=0.5))
    assert cut.seen == []
    assert len(read_records(out / "dev.parquet")) == 3


def test_one_text_that_breaks_the_segmenter_is_one_reject(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = read_records(corpus / "dev.parquet")
    bad = records[7].references[1].text
    use(monkeypatch, Counting(bad))
    report = segment(str(corpus), str(tmp_path), HERE, splits=["dev"])
    hit = sum(reference.text == bad for record in records for reference in record.references)
    assert report.splits["dev"].rejects == hit
    reasons = {json.loads(line)["reason"] for line in (tmp_path / "rejects.jsonl").read_text().splitlines()}
    assert "reference 2: RuntimeError: this text is beyond me" in reasons
    wanted = [reference for record in expected(records) for reference in record.references if reference.text != bad]
    assert [reference for r in read_records(tmp_path / "dev.parquet") for reference in r.references] == wanted


def test_a_segmenter_that_always_fails_ends_the_job(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shortening(ClauseSegmenter):
        def segment(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
            return [(text[:-1],) for text in texts]

    use(monkeypatch, Shortening())
    with pytest.raises(
        SegmentationError, match=r"fails on every one of 5\d texts; on the first with .*not concatenate"
    ):
        segment(str(corpus), str(tmp_path), HERE, splits=["dev"])
    assert not (tmp_path / "dev.parquet").exists()


def test_what_the_segmenter_failed_on_is_tried_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = read_records(corpus / "dev.parquet")[7].references[1].text
    strict = SegmentConfig(actors=0, shard_rows=20, max_reject_share=0)
    use(monkeypatch, Counting(bad))
    with pytest.raises(SegmentationError, match="of 216 texts were rejected"):
        segment(str(corpus), str(tmp_path), strict, splits=["dev"])
    cut = Counting()
    use(monkeypatch, cut)
    report = segment(str(corpus), str(tmp_path), strict, splits=["dev"])
    assert report.progress is not None
    assert (report.progress.found, report.progress.total) == (3, 4)
    assert bad in cut.seen
    assert read_records(tmp_path / "dev.parquet") == expected(read_records(corpus / "dev.parquet"))


# --- cut off, and two at once ----------------------------------------------------------------------------------------


def test_a_job_that_was_cut_off_goes_on(corpus: Path, tmp_path: Path) -> None:
    class CutError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.shards == 5:
            raise CutError

    with pytest.raises(CutError):
        segment(str(corpus), str(tmp_path), HERE, progress=stop)
    assert not [name for name in snapshot(tmp_path) if name.endswith((".tmp", "manifest.json"))]
    assert not (tmp_path / "train.parquet").exists()
    report = segment(str(corpus), str(tmp_path), HERE)
    assert report.progress is not None
    assert (report.progress.found, report.progress.total) == (5, 12)
    for split in ("train", "dev"):
        assert read_records(tmp_path / f"{split}.parquet") == expected(read_records(corpus / f"{split}.parquet"))


def test_a_shard_that_kills_its_workers_ends_the_job(corpus: Path, tmp_path: Path) -> None:
    out = Folder(str(tmp_path))

    def leave_traces_of_deaths(progress: Progress) -> None:
        out.write("facts/dev/00001.parquet.attempts", str(ATTEMPTS).encode())

    with pytest.raises(SegmentationError, match=f"{ATTEMPTS} workers died over rows 18 to 35 of .*dev.parquet"):
        segment(str(corpus), str(tmp_path), HERE, splits=["dev"], progress=leave_traces_of_deaths)
    assert segment(str(corpus), str(tmp_path), HERE, splits=["dev"]).splits["dev"].records == 72


def test_an_error_in_an_actor_reaches_the_user(
    corpus: Path, tmp_path: Path, ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Newer(ClauseSegmenter):
        fingerprint = "clauses-of-tomorrow"

    use(monkeypatch, Newer())  # in the driver; the actors load their own
    with pytest.raises(AggGenError, match="the job's is clauses-of-tomorrow; run the same version of agggen"):
        segment(str(corpus), str(tmp_path), SegmentConfig(actors=1), splits=["dev"])


def test_a_second_job_on_one_folder_is_refused(corpus: Path, tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path))), pytest.raises(ClaimedError, match=r"another job works on .*process \d+ on"):
        segment(str(corpus), str(tmp_path), HERE)
    assert not segment(str(corpus), str(tmp_path), HERE).finished_before


# --- the cache -------------------------------------------------------------------------------------------------------


def test_the_cache_serves_another_job(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SegmentConfig(actors=0, cache="on", cache_dir=str(tmp_path / "cache"))
    cut = Counting()
    use(monkeypatch, cut)
    first = segment(str(corpus), str(tmp_path / "first"), config)
    seen = len(cut.seen)
    second = segment(str(corpus), str(tmp_path / "second"), config)
    assert len(cut.seen) == seen > 0
    assert second.splits == first.splits
    assert counted(second).cached >= counted(first).segmented > 0
    assert counted(second).segmented == 0


def counted(report: SegmentReport) -> worker_module.Counts:
    assert report.progress is not None
    return report.progress.counts


def test_a_damaged_cache_does_no_harm(corpus: Path, tmp_path: Path) -> None:
    config = SegmentConfig(actors=0, cache="on", cache_dir=str(tmp_path / "cache"))
    good = segment(str(corpus), str(tmp_path / "first"), config)
    (file,) = (tmp_path / "cache").iterdir()  # no log is left beside it
    file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    report = segment(str(corpus), str(tmp_path / "second"), config)
    assert report.splits == good.splits
    assert counted(report).cache_errors > 0


# --- S3 --------------------------------------------------------------------------------------------------------------


def test_from_s3_to_s3(corpus: Path, s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("agggen_platform.storage.claim.BEAT", 0.2)
    bucket = Folder(f"{s3}/corpora")
    for split in ("train", "dev"):
        bucket.write(f"in/{split}.parquet", (corpus / f"{split}.parquet").read_bytes())
    here = segment(str(corpus), str(tmp_path / "here"), HERE)
    there = segment(f"{s3}/corpora/in", f"{s3}/corpora/out", HERE)
    assert there.splits == here.splits
    bucket.download("out/train.parquet", tmp_path / "train.parquet")
    assert read_records(tmp_path / "train.parquet") == read_records(tmp_path / "here" / "train.parquet")
    assert segment(f"{s3}/corpora/in/", f"{s3}/corpora/out/", HERE).finished_before
    assert "out/.claim" not in bucket.names()
    with pytest.raises(CorpusError, match="is the folder of the input"):
        segment(f"{s3}/corpora/in", f"{s3}/corpora/in/", HERE)


def test_claims_on_s3(s3: str) -> None:
    folder = Folder(f"{s3}/out")
    with claim(folder, beat=0.2) as check:
        with pytest.raises(ClaimedError, match=r"process \d+ on"), claim(folder, beat=0.2):
            pass
        check()
        folder.write(".claim", json.dumps({"id": "other", "who": "someone", "count": 0}).encode())
        with pytest.raises(ClaimedError, match="took over"):
            check()
    folder.write(".claim", json.dumps({"id": "dead", "who": "someone", "count": 3}).encode())
    with claim(folder, beat=0.2) as check:  # it stood still, so its holder is dead
        check()


@pytest.mark.slow
def test_the_command_on_s3_with_actors_of_its_own(corpus: Path, s3: str, tmp_path: Path) -> None:
    Folder(f"{s3}/in").write("dev.parquet", (corpus / "dev.parquet").read_bytes())
    script = Path(__file__).parents[2] / "jobs" / "segment.py"
    command = [sys.executable, str(script), f"{s3}/in", "--out", f"{s3}/out", "shard_rows=20", "--actors", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "dev\t72\t216\t" in done.stdout
    assert len(Folder(f"{s3}/out").names("facts/dev")) == 4
    log = next(tmp_path.glob("runs/segment-*/tracking.jsonl")).read_text().splitlines()
    metrics = [json.loads(line)["values"] for line in log if json.loads(line)["event"] == "metrics"]
    assert metrics[-1]["texts"] == 216
    assert {"facts_per_text", "sentences_per_second", "cached", "rejects"} <= metrics[-1].keys()
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert "nothing was done" in again.stderr
