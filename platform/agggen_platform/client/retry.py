"""When a call is retried, and after how long."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

from agggen_platform.client.errors import DeadlineError, EndpointError


@dataclass(frozen=True, slots=True)
class Retry:
    """Number of attempts and the waits between them.

    Waits double from `first_wait`, are drawn from the upper half (jitter), and are never shorter than Retry-After.
    """

    attempts: int = 10  # in a row without an answer; 1: no retries
    first_wait: float = 0.25  # seconds
    longest_wait: float = 10.0  # seconds; an endpoint may ask for longer

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        if self.first_wait < 0 or self.longest_wait < self.first_wait:
            raise ValueError(f"waits must rise from 0 or more, not {self.first_wait} to {self.longest_wait}")

    def wait(self, attempt: int, asked: float | None, draw: float) -> float:
        """Seconds before the attempt after the `attempt`-th; `draw` is from 0 to 1, `asked` what Retry-After says."""
        full = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 64))
        return max(full * (0.5 + draw / 2), 0.0 if asked is None else asked + self.first_wait * draw)


class Attempts:
    """The attempts of a call until an answer, and the time that they may take together."""

    def __init__(self, retry: Retry, deadline: float) -> None:
        """`deadline`: seconds from now; raises ValueError if it is not a number above 0."""
        if not 0 < deadline < math.inf:
            raise ValueError(f"the deadline must be a number of seconds above 0, not {deadline}")
        self._retry, self._seconds = retry, deadline
        self.restart()

    def restart(self) -> None:
        """Counts attempts and time anew, after an answer."""
        self._made, self._end = 0, time.monotonic() + self._seconds

    @property
    def left(self) -> float:
        """Seconds until the deadline; 0 when it has passed."""
        return max(0.0, self._end - time.monotonic())

    def check(self, cause: EndpointError | None = None) -> None:
        """Raises DeadlineError after the deadline; `cause` is the last error."""
        if not self.left:
            raise self._late(cause)

    def pause(self, cause: EndpointError) -> None:
        """Waits before the next attempt.

        Raises:
            EndpointError: `cause`, when this was the last attempt.
            DeadlineError: the wait would end after the deadline.
        """
        self._made += 1
        if self._made >= self._retry.attempts:
            raise cause
        wait = self._retry.wait(self._made, cause.retry_after, random.random())
        if wait >= self.left:
            raise self._late(cause) from cause
        time.sleep(wait)

    def _late(self, cause: EndpointError | None) -> DeadlineError:
        why = f"; the last attempt: {cause}" if cause else ""
        problem, request_id = (cause.problem, cause.request_id) if cause else (None, None)
        return DeadlineError(f"no answer within {self._seconds:g} s{why}", problem, request_id)


def retry_after(header: str | None) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, section 10.2.3); None where it is a date, or missing."""
    text = (header or "").strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else None
