"""The cache of facts: what goes in comes out, for several processes at once, and damage is only a miss."""

from __future__ import annotations

import multiprocessing
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.facts import cut
from agggen_platform.segmentation.cache import FactCache

TEXTS = {f"Text {number} is one. {'It is long. ' * (number % 4)}End.": number for number in range(300)}
FACTS = {text: cut(text, [text.index("End")]) for text in TEXTS}


def write_all(folder: Path, start: int) -> None:
    cache = FactCache(folder, "x")
    items = list(FACTS.items())
    for at in range(0, len(items), 10):
        cache.put(dict(items[(start + at) % len(items) :][:10]))
        cache.get(list(FACTS))
    cache.close()
    assert cache.errors == 0


def test_processes_share_a_cache(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_all, args=(tmp_path, 70 * number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert FactCache(tmp_path, "x").get(["unknown", *FACTS]) == FACTS


def test_a_cache_is_opened_in_one_thread_and_used_in_another(tmp_path: Path) -> None:
    """Ray Data makes a worker in one thread of its actor and calls it in another."""
    cache = FactCache(tmp_path, "x")
    with ThreadPoolExecutor(1) as other:
        other.submit(cache.put, FACTS).result()
        assert other.submit(cache.get, list(FACTS)).result() == FACTS
    assert cache.errors == 0


def open_often(barrier: Barrier, folder: Path) -> None:
    for number in range(60):
        barrier.wait(60)
        cache = FactCache(folder / str(number), "x")
        cache.close()
        assert cache.errors == 0


def test_processes_make_a_cache_at_the_same_moment(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    openers = [context.Process(target=open_often, args=(barrier, tmp_path)) for _ in range(4)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(120)
    assert [opener.exitcode for opener in openers] == [0, 0, 0, 0]


def test_another_segmenter_has_another_cache(tmp_path: Path) -> None:
    FactCache(tmp_path, "clauses-1").put(FACTS)
    assert FactCache(tmp_path, "clauses-2").get(list(FACTS)) == {}


@settings(max_examples=25)
@given(st.text(min_size=1).filter(str.strip), st.sets(st.integers(0, 50)))
def test_any_text_comes_back(text: str, starts: set[int]) -> None:
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


def test_a_folder_that_cannot_be_made_is_no_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = FactCache(tmp_path / "file" / "cache", "x")
    cache.put(FACTS)
    assert cache.get(list(FACTS)) == {}
    assert cache.errors == 1
    assert "cannot be used: [Errno 20] Not a directory" in caplog.text


def test_a_full_cache_forgets_what_was_not_used_for_longest(tmp_path: Path) -> None:
    cache = FactCache(tmp_path, "x", limit=1 << 17)
    often = "Often used. End."
    texts = [f"Text {number} of many. End." for number in range(12_000)]
    cache.put({often: cut(often, [12])})
    for start in range(0, len(texts), 100):
        cache.put({text: cut(text, [text.index("End")]) for text in texts[start : start + 100]})
        assert often in cache.get([often])
    kept = cache.get(texts)
    assert 500 < len(kept) < len(texts) / 2
    assert texts[-1] in kept and texts[0] not in kept
    assert cache.errors == 0
    cache.close()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 2 << 17
    assert often in FactCache(tmp_path, "x").get([often])
