"""Bulk generation into a folder with its own or another job's output, and with an input that changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen.errors import CorpusError
from agggen_platform.bulk import rows as rows_module
from agggen_platform.bulk.job import Progress
from agggen_platform.bulk.model import open_model
from agggen_platform.sharded.config import JobError
from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import RECORDS, Bulk, numbered_records, published, write_jsonl
from tests.unit.serve.conftest import save_tiny_model


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
