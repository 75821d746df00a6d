"""The cache of facts: shared by concurrent processes; damaged entries are misses."""

import multiprocessing
import sqlite3
import tempfile
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agggen.facts import cut
from agggen_platform.segmentation.cache import FactCache

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
