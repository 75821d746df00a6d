"""Sharded jobs in processes of their own, for tests that kill them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from tests.processes import Running


class ShardedJob(Running):
    """A command in a process of its own, with a Ray cluster of its own."""

    def __init__(self, command: Sequence[str], folder: Path, parts: str, worker: str) -> None:
        """
        Args:
            command: of agggen; ``--out`` is added.
            parts: the folder of the shards' files, within the output.
            worker: the class that an actor is made of.
        """
        self.out, self._parts, self._worker = folder / "out", folder / "out" / parts, worker
        super().__init__(["-m", "agggen_platform.cli.main", *command, "--out", str(self.out)], folder)

    def wait_for_parts(self, count: int) -> None:
        self.wait_until(lambda: len(self.parts()) >= count, f"{count} shards")

    def parts(self) -> list[Path]:
        return list(self._parts.glob("[0-9]*.parquet"))

    def actors(self) -> set[int]:
        return {child.pid for child in self.children(f"({self._worker})")}

    def die(self) -> None:
        """Kills the driver alone: what it started must notice by itself."""
        self.signal(signal.SIGKILL)
        self.process.wait(60)

    def succeed(self) -> str:
        """Waits for its success and returns its output."""
        assert self.finish() == 0, self.output()
        return self.output()
