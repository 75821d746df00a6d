"""Segmentation: shards have every row once and in order, rejects have reasons, processes share a cache of facts."""

import multiprocessing
import sqlite3
import tempfile
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.corpora.prepared import schema
from agggen.corpora.rejects import Reject
from agggen.facts import cut
from agggen.facts.clauses import ClauseSegmenter
from agggen_platform.segmentation.cache import FactCache
from agggen_platform.segmentation.config import SegmentConfig
from agggen_platform.segmentation.job import open_source, plan_shards
from agggen_platform.segmentation.worker import RowSegmenter
from agggen_platform.sharded.shards import Shard, read_rows
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder


def row(identifier: str, triples: list[dict[str, str]] | None) -> dict[str, Any]:
    return {"id": identifier, "corpus": "x", "split": "dev", "category": None, "triples": triples, "references": []}


def write(path: Path, groups: list[int]) -> None:
    number = 0
    with pq.ParquetWriter(path, schema()) as writer:
        for size in groups:
            rows = [row(str(n), []) for n in range(number, number + size)]
            number += size
            writer.write_table(pa.Table.from_pylist(rows, schema()), row_group_size=max(1, size))


@settings(max_examples=40)
@given(groups=st.lists(st.integers(1, 60), max_size=6), size=st.integers(1, 50), at_once=st.integers(1, 20))
def test_every_row_is_in_one_shard(groups: list[int], size: int, at_once: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "dev.parquet", groups)
        source = open_source(Folder(folder), "dev.parquet")
        shards = plan_shards(source, size, "j")
        read = []
        for shard in shards:
            number = shard.first
            for first, rows in read_rows(shard, at_once, None):
                assert first == number
                assert 0 < len(rows) <= at_once
                number += len(rows)
                read += [item["id"] for item in rows]
            assert number == shard.first + shard.rows
    assert read == [str(number) for number in range(sum(groups))]
    assert [shard.index for shard in shards] == list(range(len(shards)))
    assert source.rows == sum(groups)
    assert all(shard.rows <= size for shard in shards)
    assert [Shard.from_json(shard.as_json()) for shard in shards] == shards


def test_small_row_groups_share_a_shard(tmp_path: Path) -> None:
    write(tmp_path / "dev.parquet", [3] * 20)
    shards = plan_shards(open_source(Folder(str(tmp_path)), "dev.parquet"), 12, "j")
    assert [(shard.groups, shard.skip, shard.rows) for shard in shards] == [
        ((n, n + 1, n + 2, n + 3), 0, 12) for n in range(0, 20, 4)
    ]


def test_an_invalid_row_does_not_mask_a_record_of_its_id(tmp_path: Path) -> None:
    triples = [{"subject": "a", "predicate": "p", "object": "b"}]
    blank = [{"subject": "a", "predicate": "p", "object": " "}]
    cells = [("x", None), ("x", blank), ("y", triples), ("x", triples), ("", triples), ("x", []), (" x ", triples)]
    cells += [("y\x07", triples), ("y", triples), ("z", triples)]
    rows = [row(identifier, own) for identifier, own in cells]
    pq.write_table(pa.Table.from_pylist(rows, schema()), tmp_path / "dev.parquet", row_group_size=3)
    (shard,) = plan_shards(open_source(Folder(str(tmp_path)), "dev.parquet"), 20, "j")
    assert shard.duplicates == ((6, "row 3"), (8, "row 2"))


def test_a_file_that_cannot_be_opened_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "dev.parquet").mkdir()
    with pytest.raises(StorageError, match=r"cannot read .*is a directory"):
        open_source(Folder(str(tmp_path)), "dev.parquet")


def test_the_fingerprint_of_foreign_parquet_is_its_content(tmp_path: Path) -> None:
    for name, groups in (("a", [5, 5]), ("b", [5, 5]), ("c", [5, 6])):
        write(tmp_path / f"{name}.parquet", groups)
    first, same, other = (open_source(Folder(str(tmp_path)), f"{name}.parquet").fingerprint for name in "abc")
    assert first == same != other


def test_invalid_references_and_records_are_rejects() -> None:
    triples = [{"subject": "Aromi", "predicate": name, "object": name} for name in ("food", "near by")]
    plans = ['[food]   [ "near by" ]', "", "[elsewhere]"]
    references = [*({"text": "It is good.", "plan": plan} for plan in plans), {"text": None}, None]
    cells = {"triples": triples, "category": "Food"}
    rows = [{"id": " a\t", "references": references} | cells, {"id": "b", "references": []} | cells]
    rows.append({"id": "c", "references": references, "triples": []})
    shard = Shard(0, "", "in.parquet", "dev/0.parquet", (0,), 0, 10, 3, "in.parquet")
    segmenter = RowSegmenter(ClauseSegmenter(), SegmentConfig(), shard)
    first, second = segmenter.records(rows, 10)
    assert [(reject.line, reject.reason) for reject in segmenter.rejects] == [
        (10, "reference 3: record 'a': a reference names 'elsewhere', which is not one of its predicates"),
        (10, "reference 4: the reference has no text"),
        (10, "reference 5: the reference has no text"),
        (12, "record 'c' has no triples; it needs at least one"),
    ]
    assert segmenter.rejects[-1] == Reject("in.parquet", 12, "c", "record 'c' has no triples; it needs at least one")
    assert [(record.id, record.category) for record in (first, second)] == [("a", "Food"), ("b", "Food")]
    assert [str(reference.plan) for reference in first.references] == ['[food] ["near by"]', "None"]
    counts = segmenter.counts
    assert (counts.records, counts.references, counts.rejects, counts.facts) == (2, 2, 4, 2)


CONTEXT = multiprocessing.get_context("spawn")
TEXTS = {f"Text {number} is one. {'It is long. ' * (number % 4)}End.": number for number in range(300)}
FACTS = {text: cut(text, [text.index("End")]) for text in TEXTS}


def use(folder: Path, barrier: Barrier, start: int) -> None:
    """Creates caches concurrently with other processes, then fills one of them."""
    for number in range(60):
        barrier.wait(60)
        created = FactCache(folder / str(number), "x")
        created.close()
        assert created.errors == 0
    cache, items = FactCache(folder, "x"), list(FACTS.items())
    for offset in range(0, len(items), 10):
        cache.put(dict(items[(start + offset) % len(items) :][:10]))
        cache.get(list(FACTS))
    cache.close()
    assert cache.errors == 0


def test_processes_share_a_cache(tmp_path: Path) -> None:
    barrier = CONTEXT.Barrier(4)
    processes = [CONTEXT.Process(target=use, args=(tmp_path, barrier, 70 * number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * len(processes)
    assert FactCache(tmp_path, "x").get(["unknown", *FACTS]) == FACTS


def test_another_segmenter_has_another_cache(tmp_path: Path) -> None:
    FactCache(tmp_path, "clauses-1").put(FACTS)
    assert FactCache(tmp_path, "clauses-2").get(list(FACTS)) == {}


@settings(max_examples=25)
@given(st.text(min_size=1).filter(str.strip), st.sets(st.integers(0, 50)))
def test_facts_of_any_text_are_restored(text: str, starts: set[int]) -> None:
    facts = cut(text, [start for start in starts if start < len(text)])
    with tempfile.TemporaryDirectory() as folder:
        cache = FactCache(Path(folder), "x")
        cache.put({text: facts})
        assert cache.get([text]) == {text: facts}
        assert cache.errors == 0
        cache.close()


def test_an_entry_that_does_not_fit_its_text_is_a_miss(tmp_path: Path) -> None:
    cache = FactCache(tmp_path, "x")
    cache.put(FACTS)
    (file,) = tmp_path.glob("*.sqlite")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE facts SET ends = x'0100000002'")
    assert cache.get(list(FACTS)) == {}
    assert cache.errors == 0


def test_a_folder_that_cannot_be_created_disables_the_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = FactCache(tmp_path / "file" / "cache", "x")
    cache.put(FACTS)
    assert cache.get(list(FACTS)) == {}
    assert cache.errors == 1
    assert "is disabled: [Errno 20] Not a directory" in caplog.text


def test_a_cache_at_its_limit_is_emptied_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_CACHE_GB", "0.000131072")
    cache = FactCache(tmp_path, "x")
    texts = [f"Text {number} of many. End." for number in range(6_000)]
    for start in range(0, len(texts), 100):
        cache.put({text: cut(text, [text.index("End")]) for text in texts[start : start + 100]})
    cache.put({"Last. End.": cut("Last. End.", [6])})
    known = cache.get([*texts, "Last. End."])
    assert 1 <= len(known) < len(texts) / 2 and "Last. End." in known
    assert cache.errors == 0
    cache.close()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size <= 1 << 17
