"""The run log in the run's store: a run that goes on on another machine goes on in the same log, and in the same run
of MLflow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agggen.errors import AggGenError
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import journal

SECONDS = 30.0
"""Between two copies; so much of the log is lost at most with the machine."""


@contextmanager
def stored_log(
    folder: Path, store: Folder, others: tuple[str, ...], claimed: Callable[[], None], say: Callable[[str], None]
) -> Iterator[None]:
    """Fetches the log, samples and figures of a run into `folder`, and copies them to `store` while the block lasts.

    A log in `folder` stays if it goes on where the stored one ends. What the store refuses is said, and no error.

    Args:
        others: the files and folders of the run that are no log.
        claimed: raises if the store's claim is lost; called before each copy.

    Raises:
        StorageError: the store did not answer when the log was to be fetched, or `folder` cannot be written.
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
                say(f"warning: the run log in {folder} is not copied to {store} for now: {error}")
            failed = True

    def copy_on() -> None:
        try:
            while not ended.wait(SECONDS):
                copy()
        except AggGenError:  # the claim is lost: the run itself finds out
            return

    thread = threading.Thread(target=copy_on, name="run log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        copy()
