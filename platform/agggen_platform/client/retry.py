"""Retries with exponential backoff and deadlines."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

from agggen_platform.client.errors import DeadlineError, EndpointError


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts, and the exponential backoff between them.

    Waits double from `first_wait` to `longest_wait`. Jitter shortens each by up to half, but not below Retry-After.
    """

    attempts: int = 10  # maximum number of consecutive failed attempts; 1: no retries
    first_wait: float = 0.25  # seconds
    longest_wait: float = 10.0  # seconds; a longer Retry-After takes precedence

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")
        if self.first_wait < 0 or self.longest_wait < self.first_wait:
            raise ValueError(
                f"waits must satisfy 0 <= first_wait <= longest_wait, not {self.first_wait} and {self.longest_wait}"
            )

    def wait(self, attempt: int, retry_after: float | None, draw: float) -> float:
        """Seconds between attempt number `attempt` (from 1) and the next; `draw`: a random number in [0, 1]."""
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(attempt - 1, 64))
        return max(longest * (0.5 + draw / 2), 0.0 if retry_after is None else retry_after + self.first_wait * draw)


class Attempts:
    """Counts the attempts of a call and measures the time until its deadline."""

    def __init__(self, retry: Retry, deadline: float, timeout: float) -> None:
        """`deadline`: seconds, above 0 (else ValueError), for all attempts; `timeout`: seconds per attempt."""
        if not 0 < deadline < math.inf:
            raise ValueError(f"the deadline must be a number of seconds above 0, not {deadline}")
        self._retry, self._seconds, self._timeout = retry, deadline, timeout
        self.restart()

    def restart(self) -> None:
        """Resets the number of attempts and the deadline; called when an attempt made progress."""
        self._failures, self._deadline = 0, time.monotonic() + self._seconds

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def timeout(self) -> float:
        """The timeout in seconds for an attempt that starts now."""
        return min(self._timeout, self.remaining)

    def check(self, cause: EndpointError | None = None) -> None:
        """Raises DeadlineError if the deadline has passed; `cause`: the last error."""
        if not self.remaining:
            raise self._deadline_error(cause)

    def pause(self, cause: EndpointError) -> None:
        """Waits before the next attempt; raises `cause` after the last one, DeadlineError if time is too short."""
        self._failures += 1
        if self._failures >= self._retry.attempts:
            raise cause
        wait = self._retry.wait(self._failures, cause.retry_after, random.random())
        if wait >= self.remaining:
            raise self._deadline_error(cause) from cause
        time.sleep(wait)

    def _deadline_error(self, cause: EndpointError | None) -> DeadlineError:
        detail = f"; the last error: {cause}" if cause else ""
        problem, request_id = (cause.problem, cause.request_id) if cause else (None, None)
        return DeadlineError(f"no answer within {self._seconds:g} s{detail}", problem, request_id)


def retry_after(header: str | None) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, section 10.2.3); None if it is missing or a date."""
    text = (header or "").strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else None
