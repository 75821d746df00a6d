"""Bulk generation jobs that are interrupted, whose workers die or fail, or whose folder has another job's output."""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agggen.corpora.prepared import write_records
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError
from agggen_platform.bulk import job as job_module
from agggen_platform.bulk import rows as rows_module
from agggen_platform.bulk.job import Progress
from agggen_platform.bulk.model import open_model
from agggen_platform.bulk.rows import Counts
from agggen_platform.bulk.worker import BulkWorker
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import ATTEMPTS
from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import RECORDS, Bulk, interrupt_after, numbered_records, published, rejects, texts, write_jsonl
from tests.unit.serve.conftest import save_tiny_model


def test_an_interrupted_job_is_resumed(bulk: Bulk, fault_free: dict[str, bytes]) -> None:
    with pytest.raises(KeyboardInterrupt):
        bulk(progress=interrupt_after(4))
    assert not published(bulk.out)
    parts = sorted((bulk.out / "texts").iterdir())
    parts[2].write_bytes(b"PAR1 and no more")
    start_marker = bulk.out / ".work" / "texts" / parts[0].stem.replace("000000", "000004") / "begun-0"
    start_marker.parent.mkdir()
    start_marker.touch()  # marks the shard as started by a worker
    bulk.source.touch()  # same content, new modification time
    report = bulk()
    assert report.progress is not None
    assert (report.progress.reused, report.progress.total, report.retries) == (3, 6, 2)
    assert published(bulk.out) == fault_free


def test_a_job_over_several_files_is_resumed_with_another_shard_size(bulk: Bulk, tmp_path: Path) -> None:
    records, source = list(numbered_records(16)), tmp_path / "in"
    source.mkdir()
    for name, part in (("a", records[:8]), ("b", records[8:12]), ("c", records[12:])):
        write_records(tmp_path / "whole.parquet", part, "x", "dev")
        pq.write_table(pq.read_table(tmp_path / "whole.parquet"), source / f"{name}.parquet", row_group_size=4)
    with pytest.raises(KeyboardInterrupt):
        bulk("shard_rows=4", source=source, progress=interrupt_after(3))
    bulk(source=source)
    assert [row["id"] for row in texts(bulk.out)] == [record.id for record in records]


class KilledWorker(BulkWorker):
    """Is killed while it processes the second shard."""

    def write_part(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        if shard.index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write_part(shard, path)


@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_a_shard_that_kills_its_workers_is_rejected_after_three_attempts(
    bulk: Bulk, fault_free: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "BulkWorker", KilledWorker)
    report = bulk("actors=2", "max_reject_share=0.2")
    assert (report.summary.records, report.summary.failed, report.retries) == (RECORDS - 8, 8, ATTEMPTS)
    rejected = rejects(bulk.out)
    assert [reject["line"] for reject in rejected] == list(range(9, 17))
    reason = f"{ATTEMPTS} workers died while processing rows 8 to 15 of {bulk.source}: out of memory"
    assert reason in str(rejected[0]["reason"])
    monkeypatch.undo()
    (bulk.out / "manifest.json").unlink()
    repeated = bulk()  # failed shards are retried
    assert repeated.progress is not None and repeated.progress.reused == 5
    assert published(bulk.out) == fault_free


@pytest.mark.usefixtures("ray_cluster")
def test_an_error_in_an_actor_reaches_the_user(bulk: Bulk) -> None:
    own_handler = logging.NullHandler()
    logging.getLogger("ray.data").addHandler(own_handler)
    with pytest.raises(JobError, match="and 000000000000 in the driver: it was replaced"):
        bulk("actors=1", model=replace(bulk.model, fingerprint="0" * 64))
    logging.getLogger("ray.data").removeHandler(own_handler)
    assert own_handler.level == logging.NOTSET, "regression: a job lowered the user's own handlers to errors"


def test_a_part_of_another_jobs_surviving_worker_is_removed(bulk: Bulk, fault_free: dict[str, bytes]) -> None:
    def write_late(progress: Progress) -> None:
        if progress.shards == 6:
            (bulk.out / "texts" / "000000-0123456789abcdef.parquet").write_bytes(b"of another job")

    bulk(progress=write_late)
    assert published(bulk.out) == fault_free


# --- an earlier output, and a changed input ---------------------------------------------------------------------------


def test_a_finished_job_is_not_repeated(
    bulk: Bulk, fault_free: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk()
    with monkeypatch.context() as patch:
        patch.delattr(rows_module.RowWriter, "texts")
        repeated = bulk("shard_rows=5", "max_reject_share=0")
    assert repeated.was_already_finished
    assert repeated.summary.records == RECORDS
    assert not bulk(fresh=True).was_already_finished
    next((bulk.out / "texts").iterdir()).write_bytes(b"half")  # only a damaged part is written again
    repaired = bulk().progress
    assert repaired is not None and repaired.reused == repaired.total - 1
    assert published(bulk.out) == fault_free


def test_another_jobs_output_is_refused_and_replaced_by_fresh(bulk: Bulk, tmp_path: Path) -> None:
    bulk()
    before = published(bulk.out)
    with pytest.raises(CorpusError, match=r"job's texts \(inference.plans: 2 in the folder, 1 requested\).*--fresh"):
        bulk("inference.plans=1")
    with pytest.raises(CorpusError, match=r"another job's texts \(input: "):
        bulk(source=write_jsonl(tmp_path / "in.jsonl", numbered_records(5)))
    retrained = open_model(str(save_tiny_model(tmp_path / "bundle", seed=6)))
    with pytest.raises(CorpusError, match=r"another job's texts \(bundle: "):
        bulk(model=retrained)
    assert published(bulk.out) == before
    (bulk.out / "notes.txt").write_text("mine")
    (bulk.out / "texts" / ".0.parquet.0badcafe.tmp.42.tmp").touch()  # left by a killed worker
    bulk("format=jsonl", model=retrained, fresh=True)
    assert {path.suffix for path in (bulk.out / "texts").iterdir()} == {".jsonl"}
    assert (bulk.out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("fresh", [False, True])
def test_files_of_other_programs_are_never_changed(fresh: bool, bulk: Bulk) -> None:
    folder = Folder(str(bulk.out))
    folder.write("texts/0.parquet", b"precious")
    with pytest.raises(CorpusError, match=r"contains texts/0\.parquet, which is not the output of a bulk"):
        bulk(fresh=fresh)
    assert folder.read("texts/0.parquet") == b"precious"
    folder.write(".job.json", b'{"kind": "segmentation", "job": "x", "config": {}}')
    folder.write("manifest.json", b'{"job": "x", "splits": {}}')
    with pytest.raises(CorpusError, match="contains the output of a segmentation job"):
        bulk(fresh=fresh)
    assert {"texts/0.parquet", "manifest.json"} <= set(folder.names())
    with pytest.raises(CorpusError, match="is the folder of the input"):
        bulk(out=bulk.source.parent, fresh=fresh)


def test_a_job_without_the_claim_publishes_no_manifest(bulk: Bulk, monkeypatch: pytest.MonkeyPatch) -> None:
    with claim(Folder(str(bulk.out))), pytest.raises(ClaimedError, match=r"another job works on .*process \d+ on"):
        bulk()

    @contextmanager
    def lost_claim(folder: Folder) -> Iterator[Callable[[], None]]:
        def check() -> None:
            raise ClaimedError("another job took over")

        yield check

    monkeypatch.setattr("agggen_platform.sharded.output.claim", lost_claim)
    with pytest.raises(ClaimedError, match="took over"):
        bulk()
    assert len([*(bulk.out / "texts").iterdir()]) == 6
    assert not {"manifest.json", "report.json"} & set(Folder(str(bulk.out)).names())


def test_output_is_not_published_if_the_input_changed(bulk: Bulk, tmp_path: Path) -> None:
    records, source = list(numbered_records(20)), tmp_path / "in.parquet"
    write_records(source, records, "x", "y")

    def change(progress: Progress) -> None:
        if progress.shards == 1:
            write_records(source, records[::-1], "x", "y")

    with pytest.raises(JobError, match=r"in\.parquet changed while it was read"):
        bulk(source=source, progress=change)
    assert not published(bulk.out)
