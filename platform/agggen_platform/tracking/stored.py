"""Copies the run log to the run's store, so that a run that resumes on another machine continues its log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agggen.errors import AggGenError
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import journal

SECONDS = 30.0  # seconds between two copies; if the machine fails, at most these seconds of the log are lost


@contextmanager
def stored_log(
    folder: Path, store: Folder, others: tuple[str, ...], claimed: Callable[[], None], report: Callable[[str], None]
) -> Iterator[None]:
    """Fetches the log and samples of a run into `folder`, and during the block regularly copies them to `store`.

    A log in `folder` that begins with the stored one is kept. A failed copy is reported but not raised.

    Args:
        others: names of files and folders in `folder` that do not belong to the log.
        claimed: raises if the store's claim is lost; called before each copy.
    """
    local = Folder(str(folder))

    def is_log(name: str) -> bool:
        top = name.partition("/")[0]
        return not top.startswith(".") and top not in others and not top.endswith((".lock", ".tmp"))

    stored = store.read(journal.NAME)
    if stored is not None and not (local.read(journal.NAME) or b"").startswith(stored):
        for name in filter(is_log, store.names()):
            with local.new(name) as path:
                store.download(name, path)
    copied: dict[str, tuple[int, int]] = {}
    ended, failed = threading.Event(), False

    def copy() -> None:
        nonlocal failed
        try:
            for name in filter(is_log, local.names()):
                status = (folder / name).stat()
                if copied.get(name) != (now := (status.st_size, status.st_mtime_ns)):
                    claimed()
                    store.upload(name, folder / name)
                    copied[name] = now
            failed = False
        except (StorageError, FileNotFoundError) as error:
            if not failed:
                report(f"warning: the run log in {folder} is not copied to {store} for now: {error}")
            failed = True

    def copy_repeatedly() -> None:
        try:
            while not ended.wait(SECONDS):
                copy()
        except AggGenError:  # the claim is lost, which the run detects itself
            return

    thread = threading.Thread(target=copy_repeatedly, name="run log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        copy()
