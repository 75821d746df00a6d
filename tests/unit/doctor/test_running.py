"""Checks run side by side, each within its time; one that breaks or hangs is a finding."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from agggen_platform.doctor.findings import Check, Finding, Level, ok
from agggen_platform.doctor.running import examine


def broken() -> Iterator[Finding]:
    yield ok("before", "this was seen")
    raise RuntimeError("it fell over\nand over")


def endless() -> Iterator[Finding]:
    yield ok("before", "this was seen")
    threading.Event().wait()


def test_a_check_that_breaks_is_a_finding_and_keeps_what_it_had_found() -> None:
    (one,) = examine([Check("ray", "token", broken, 60)])
    assert [(finding.about, finding.level) for finding in one.findings] == [("before", "ok"), ("token", "error")]
    assert one.findings[1].found.startswith("the check itself broke: RuntimeError: it fell over (test_running.py:")
    assert "Traceback" not in one.findings[1].found
    assert one.findings[1].remedy == "report it with the output of: agggen doctor --only ray --json"


def test_a_check_that_hangs_is_given_up() -> None:
    begin = time.monotonic()
    hung, well = examine([Check("ray", "cluster", endless, 0.5), Check("torch", "torch", lambda: [ok("a", "b")], 60)])
    assert time.monotonic() - begin < 20
    assert [finding.level for finding in hung.findings] == ["ok", "error"]
    assert hung.findings[1].found.startswith("no answer within 0.5 s")
    assert well.findings == (ok("a", "b"),)


def test_what_a_hanging_check_means_is_for_the_check_to_say() -> None:
    (hung,) = examine([Check("allennlp", "environment", endless, 0.1, Level.WARNING)])
    assert hung.findings[-1].level is Level.WARNING


def test_checks_run_side_by_side() -> None:
    """Each waits for the others, so one after the other they would all be late."""
    barrier = threading.Barrier(8)

    def meet() -> list[Finding]:
        barrier.wait(60)
        return [ok("met", "all others")]

    examined = examine([Check("ports", str(number), meet, 90) for number in range(8)])
    assert [one.check.name for one in examined] == [str(number) for number in range(8)]
    assert all(one.findings == (ok("met", "all others"),) for one in examined)


def test_the_interpreter_does_not_wait_for_a_check_that_hangs() -> None:
    examine([Check("ray", "cluster", endless, 0.01)])
    hanging = [thread for thread in threading.enumerate() if thread.name == "doctor cluster"]
    assert hanging and all(thread.daemon for thread in hanging)
