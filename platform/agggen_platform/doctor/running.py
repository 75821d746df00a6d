"""Runs checks side by side. One that breaks, or never ends, is a finding and keeps none of the others."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from agggen_platform.doctor.findings import Check, Finding, error


@dataclass(frozen=True)
class Examined:
    """A check and what it said."""

    check: Check
    findings: tuple[Finding, ...]
    seconds: float


def examine(checks: Sequence[Check]) -> list[Examined]:
    """What all checks say, in their order, after the longest of their times at most.

    Each has a thread of its own. One that does not end is left behind: its thread is a daemon, which the interpreter
    does not wait for.
    """
    looks = [_Look(check) for check in checks]
    for look in looks:
        look.thread.start()
    return [look.result() for look in looks]


@dataclass
class _Look:
    check: Check
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin = time.monotonic()
        self._seconds = 0.0
        self.thread = threading.Thread(target=self._run, name=f"doctor {self.check.name}", daemon=True)

    def _run(self) -> None:
        try:
            for finding in self.check.look():  # one by one, so that those before a fault are kept
                self.findings.append(finding)
        except Exception as broken:
            self.findings.append(_broken(self.check, broken))
        self._seconds = time.monotonic() - self._begin

    def result(self) -> Examined:
        self.thread.join(max(0.0, self._begin + self.check.seconds - time.monotonic()))
        if not self.thread.is_alive():
            return Examined(self.check, tuple(self.findings), self._seconds)
        late = Finding(
            self.check.late,
            self.check.name,
            f"no answer within {self.check.seconds:g} s; what is looked at here hangs, or this machine is overloaded",
            f"agggen doctor --only {self.check.area}",
        )
        return Examined(self.check, (*self.findings, late), self.check.seconds)


def _broken(check: Check, fault: Exception) -> Finding:
    where = traceback.extract_tb(fault.__traceback__)[-1]
    line = (str(fault).strip() or "no message").splitlines()[0]
    return error(
        check.name,
        f"the check itself broke: {type(fault).__name__}: {line} ({where.filename.rpartition('/')[2]}:{where.lineno})",
        f"report it with the output of: agggen doctor --only {check.area} --json",
    )
