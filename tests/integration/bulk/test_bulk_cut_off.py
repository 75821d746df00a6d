"""Bulk generation jobs that are interrupted, or whose workers die or fail."""

import logging
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agggen.corpora.prepared import write_records
from agggen.corpora.rejects import Reject
from agggen_platform.bulk import job as job_module
from agggen_platform.bulk.job import Progress
from agggen_platform.bulk.rows import Counts
from agggen_platform.bulk.worker import BulkWorker
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import ATTEMPTS
from tests.bulk_jobs import RECORDS, Bulk, interrupt_after, numbered_records, published, rejects, texts


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
