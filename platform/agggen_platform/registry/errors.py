"""Errors of the registry."""

from __future__ import annotations

from collections.abc import Sequence

from agggen.errors import AggGenError


class RegistryError(AggGenError):
    """The registry lacks what was asked for, refuses a change, or cannot be reached."""

    exit_code = 8


class PromotionRefused(AggGenError):
    """A version may not get the alias; `failures` lists the reasons."""

    exit_code = 9

    def __init__(self, what: str, failures: Sequence[str]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join([f"{what} is refused:", *(f"  - {failure}" for failure in failures)]))
