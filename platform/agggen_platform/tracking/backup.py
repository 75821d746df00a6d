"""Copies the run log to the run's store, so that a run that resumes on another machine continues its log."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agggen.errors import AggGenError
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.tracking import journal

INTERVAL_SECONDS = 30.0  # between two copies; if the machine fails, at most this much of the log is lost


@contextmanager
def log_backup(
    folder: Path, store: Folder, excluded: Sequence[str], check_claim: Callable[[], None], report: Callable[[str], None]
) -> Iterator[None]:
    """Downloads the log and samples of a run from `store` to `folder`; in the block, regularly copies them to `store`.

    Nothing is downloaded if the log in `folder` begins with the stored one. Errors of copies are reported, not raised.
    `excluded`: names in `folder` that are not part of the log. `check_claim` raises if the claim on the store is lost.
    """
    local = Folder(str(folder))

    def is_log(name: str) -> bool:
        top_name = name.partition("/")[0]
        return not top_name.startswith(".") and top_name not in excluded and not top_name.endswith((".lock", ".tmp"))

    stored_log = store.read(journal.FILE_NAME)
    if stored_log is not None and not (local.read(journal.FILE_NAME) or b"").startswith(stored_log):
        for name in filter(is_log, store.names()):
            with local.new(name) as path:
                store.download(name, path)
    copied: dict[str, tuple[int, int]] = {}  # size and modification time of each copied file
    stop_event, has_failed = threading.Event(), False

    def copy() -> None:
        nonlocal has_failed
        try:
            for name in filter(is_log, local.names()):
                status = (folder / name).stat()
                if copied.get(name) != (version := (status.st_size, status.st_mtime_ns)):
                    check_claim()
                    store.upload(name, folder / name)
                    copied[name] = version
            has_failed = False
        except (StorageError, FileNotFoundError) as error:
            if not has_failed:
                report(f"warning: the run log in {folder} cannot be copied to {store}, and is copied later: {error}")
            has_failed = True

    def copy_repeatedly() -> None:
        try:
            while not stop_event.wait(INTERVAL_SECONDS):
                copy()
        except AggGenError:  # the claim is lost; the run notices it, too
            return

    thread = threading.Thread(target=copy_repeatedly, name="run log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop_event.set()
        thread.join()
        copy()
