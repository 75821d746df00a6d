"""A bulk generation job that was interrupted, and one whose workers die or fail."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agggen.corpora.prepared import write_records
from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError
from agggen_platform.bulk import job as job_module
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, bulk_config
from agggen_platform.bulk.rows import Counts
from agggen_platform.bulk.worker import BulkWorker
from agggen_platform.sharded.config import JobError
from agggen_platform.sharded.shards import Shard
from agggen_platform.sharded.worker import ATTEMPTS
from tests.bulk_jobs import RECORDS, here, interrupt_at, numbered_records, published, rejects, texts, write_jsonl


def test_an_interrupted_job_is_resumed(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        generate(model, str(source), str(tmp_path), here(model), progress=interrupt_at(4))
    assert not published(tmp_path)
    parts = sorted((tmp_path / "texts").iterdir())
    parts[2].write_bytes(b"PAR1 and no more")
    note = tmp_path / ".work" / "texts" / parts[0].stem.replace("000000", "000004") / "begun-0"
    note.parent.mkdir()
    note.touch()  # a worker had started it
    report = generate(model, str(source), str(tmp_path), here(model))
    assert report.progress is not None
    assert (report.progress.reused, report.progress.total, report.redone) == (3, 6, 2)
    assert published(tmp_path) == undisturbed


def test_an_interrupted_job_refuses_an_input_that_changed_since(model: Model, tmp_path: Path) -> None:
    source, out = write_jsonl(tmp_path / "in.jsonl", numbered_records(20)), tmp_path / "out"
    records = source.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        generate(model, str(source), str(out), here(model), progress=interrupt_at(1))
    source.write_bytes(records.replace(b"r19", b"r91"))
    with pytest.raises(CorpusError, match=r"another job's texts \(input: "):
        generate(model, str(source), str(out), here(model))
    source.write_bytes(records)  # the same bytes, at another time
    report = generate(model, str(source), str(out), here(model))
    assert report.progress is not None and report.progress.reused == 1


def test_a_job_over_several_files_is_resumed_with_another_shard_size(model: Model, tmp_path: Path) -> None:
    records, source, out = list(numbered_records(16)), tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name, part in (("a", records[:8]), ("b", records[8:12]), ("c", records[12:])):
        write_records(tmp_path / "whole.parquet", part, "x", "dev")
        pq.write_table(pq.read_table(tmp_path / "whole.parquet"), source / f"{name}.parquet", row_group_size=4)
    with pytest.raises(KeyboardInterrupt):
        generate(model, str(source), str(out), here(model, "shard_rows=4"), progress=interrupt_at(3))
    generate(model, str(source), str(out), here(model, "shard_rows=8"))
    assert [row["id"] for row in texts(out)] == [record.id for record in numbered_records(16)]


class Deadly(BulkWorker):
    """Dies while it processes the second shard."""

    def fill(self, shard: Shard, path: Path) -> tuple[Counts, int, Sequence[Reject]]:
        if shard.index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fill(shard, path)


@pytest.mark.slow
def test_a_shard_that_kills_its_workers_is_rejected_after_three_attempts(
    model: Model,
    source: Path,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    ray_cluster: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_module, "BulkWorker", Deadly)
    config = bulk_config(model, ["actors=2", "shard_rows=8", "max_reject_share=0.2"])
    report = generate(model, str(source), str(tmp_path), config)
    assert (report.summary.records, report.summary.failed, report.redone) == (RECORDS - 8, 8, ATTEMPTS)
    assert [reject["line"] for reject in rejects(tmp_path)] == list(range(9, 17))
    assert f"{ATTEMPTS} workers died while processing rows 8 to 15 of {source}: out of memory" in str(
        rejects(tmp_path)[0]["reason"]
    )
    monkeypatch.undo()
    (tmp_path / "manifest.json").unlink()
    repeated = generate(model, str(source), str(tmp_path), here(model))  # failed shards are tried again
    assert repeated.progress is not None and repeated.progress.reused == 5
    assert published(tmp_path) == undisturbed


def test_an_error_in_an_actor_reaches_the_user(model: Model, source: Path, tmp_path: Path, ray_cluster: None) -> None:
    other = Model(model.address, "0" * 64, model.inference, model.largest_group)
    own_handler = logging.NullHandler()
    logging.getLogger("ray.data").addHandler(own_handler)
    with pytest.raises(JobError, match="the job's is 000000000000: it was replaced"):
        generate(other, str(source), str(tmp_path), bulk_config(model, ["actors=1"]))
    logging.getLogger("ray.data").removeHandler(own_handler)
    assert own_handler.level == logging.NOTSET, "regression: a job lowered the user's own handlers to errors"


def test_a_part_of_another_jobs_surviving_worker_is_removed(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    def write_late(progress: Progress) -> None:
        if progress.shards == 6:
            (tmp_path / "texts" / "000000-0123456789abcdef.parquet").write_bytes(b"of another job")

    generate(model, str(source), str(tmp_path), here(model), progress=write_late)
    assert published(tmp_path) == undisturbed
