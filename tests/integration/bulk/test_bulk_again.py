"""A bulk generation job on a folder with its own output, another job's, or an input that changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agggen.corpora.prepared import write_records
from agggen.errors import CorpusError
from agggen_platform.bulk import job as job_module
from agggen_platform.bulk import rows as rows_module
from agggen_platform.bulk.job import Progress, generate
from agggen_platform.bulk.model import Model, open_model
from agggen_platform.sharded.config import JobError
from agggen_platform.storage.claim import ClaimedError, claim
from agggen_platform.storage.folder import Folder
from tests.bulk_jobs import RECORDS, here, numbered_records, published, write_jsonl
from tests.unit.serve.conftest import save_tiny_model


def test_a_finished_job_is_not_repeated(
    model: Model, source: Path, undisturbed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(model, str(source), str(tmp_path), here(model))
    with monkeypatch.context() as patch:
        patch.delattr(rows_module.RowWriter, "texts")
        repeated = generate(model, str(source), str(tmp_path), here(model, "shard_rows=5", "max_reject_share=0"))
    assert repeated.finished_before
    assert repeated.summary.records == RECORDS
    assert not generate(model, str(source), str(tmp_path), here(model), fresh=True).finished_before
    next((tmp_path / "texts").iterdir()).write_bytes(b"half")  # a damaged part is written again, the others are kept
    mended = generate(model, str(source), str(tmp_path), here(model)).progress
    assert mended is not None and mended.reused == mended.total - 1
    assert published(tmp_path) == undisturbed


def test_another_jobs_output_is_refused_and_replaced_by_fresh(model: Model, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate(model, str(source), str(out), here(model))
    before = published(out)
    other = here(model, "inference.plans=1")
    with pytest.raises(CorpusError, match=r"another job's texts \(inference.plans: 2 there, 1 now\).*--fresh"):
        generate(model, str(source), str(out), other)
    changed = write_jsonl(tmp_path / "in.jsonl", numbered_records(5))
    with pytest.raises(CorpusError, match=r"another job's texts \(input: "):
        generate(model, str(changed), str(out), here(model))
    retrained = open_model(str(save_tiny_model(tmp_path / "bundle", seed=6)))
    with pytest.raises(CorpusError, match=r"another job's texts \(bundle: "):
        generate(retrained, str(source), str(out), here(retrained))
    assert published(out) == before
    (out / "notes.txt").write_text("mine")
    generate(retrained, str(source), str(out), here(retrained, "format=jsonl"), fresh=True)
    assert {path.suffix for path in (out / "texts").iterdir()} == {".jsonl"}
    assert (out / "notes.txt").read_text() == "mine"


def test_files_of_other_programs_are_never_changed(model: Model, source: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "0.parquet").write_bytes(b"precious")
    for fresh in (False, True):
        with pytest.raises(CorpusError, match=r"contains texts/0\.parquet, which is not the output of a bulk"):
            generate(model, str(source), str(tmp_path), here(model), fresh=fresh)
    assert (tmp_path / "texts" / "0.parquet").read_bytes() == b"precious"
    segmented = tmp_path / "segmented"
    Folder(str(segmented)).write(".job.json", b'{"kind": "segmentation", "job": "x", "config": {}}')
    Folder(str(segmented)).write("manifest.json", b'{"job": "x", "splits": {}}')
    for fresh in (False, True):
        with pytest.raises(CorpusError, match="contains the output of a segmentation job"):
            generate(model, str(source), str(segmented), here(model), fresh=fresh)
    assert (segmented / "manifest.json").exists()
    with pytest.raises(CorpusError, match="is the folder of the input"):
        generate(model, str(source), str(source.parent), here(model))


def test_a_second_job_on_one_folder_is_refused(model: Model, source: Path, tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path))), pytest.raises(ClaimedError, match=r"another job works on .*process \d+ on"):
        generate(model, str(source), str(tmp_path), here(model))


def test_a_claim_that_is_lost_publishes_no_manifest(
    model: Model, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def lost(folder: Folder) -> Iterator[Callable[[], None]]:
        def check() -> None:
            raise ClaimedError("another job took over")

        yield check

    monkeypatch.setattr(job_module, "claim", lost)
    with pytest.raises(ClaimedError, match="took over"):
        generate(model, str(source), str(tmp_path), here(model))
    assert len([*(tmp_path / "texts").iterdir()]) == 6 and not (tmp_path / "manifest.json").exists()


def test_output_is_not_published_if_the_input_changed(model: Model, tmp_path: Path) -> None:
    records, source, out = list(numbered_records(20)), tmp_path / "in.parquet", tmp_path / "out"
    write_records(source, records, "x", "y")

    def change(progress: Progress) -> None:
        if progress.shards == 1:
            write_records(source, records[::-1], "x", "y")

    with pytest.raises(JobError, match=r"in\.parquet changed while it was read"):
        generate(model, str(source), str(out), here(model), progress=change)
    assert not published(out)
