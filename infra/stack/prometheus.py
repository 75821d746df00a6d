"""Prometheus with this project's rules, if it is installed; optional."""

from __future__ import annotations

import shutil
from pathlib import Path

from infra.stack.errors import StackError
from infra.stack.part import HOST, Part, get
from infra.stack.processes import Launch
from infra.stack.state import State

_CONFIG = Path(__file__).parents[1] / "monitoring" / "prometheus.yaml"


class Prometheus(Part):
    name = "prometheus"
    title = "Prometheus"

    def __init__(self, port: int, state: State) -> None:
        super().__init__(port)
        self._data = state.path / "prometheus"

    def prepare(self) -> Launch:
        program = shutil.which("prometheus")
        if program is None:
            raise StackError("prometheus is not on PATH: apt install prometheus, or leave out --prometheus")
        place = [f"--web.listen-address={HOST}:{self.port}", f"--storage.tsdb.path={self._data}"]
        return Launch([program, f"--config.file={_CONFIG}", *place])

    def check(self) -> None:
        get(f"{self.address}/-/ready")
