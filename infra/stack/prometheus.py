"""Prometheus with this project's rules, where its program is installed; on demand."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST
from infra.stack.processes import Launch
from infra.stack.state import State


class Prometheus(Part):
    name = "prometheus"

    def __init__(self, port: int, state: State, config: Path) -> None:
        super().__init__(port)
        self._data, self._config = state.path / "prometheus", config

    @property
    def title(self) -> str:
        return "Prometheus"

    def prepare(self) -> Launch:
        program = shutil.which("prometheus")
        if program is None:
            raise StackError("there is no prometheus on PATH: apt install prometheus, or leave out --prometheus")
        if not self._config.is_file():
            raise StackError(f"there is no file {self._config}; --prometheus-config names a configuration")
        self._data.mkdir(mode=0o700, exist_ok=True)
        place = [f"--web.listen-address={HOST}:{self.port}", f"--storage.tsdb.path={self._data}"]
        return Launch([program, f"--config.file={self._config}", *place])

    def check(self) -> None:
        try:
            answer = httpx.get(f"{self.address}/-/ready", timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            raise UnreadyError(str(error) or type(error).__name__) from error
        if answer.status_code != 200:
            raise UnreadyError(f"it says {answer.status_code}: {answer.text[:200]}")
