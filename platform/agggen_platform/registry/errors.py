"""What can go wrong between a bundle and its alias."""

from __future__ import annotations

from collections.abc import Sequence

from agggen.errors import AggGenError


class RegistryError(AggGenError):
    """The registry does not hold what was asked for, refuses a change, or cannot be reached."""

    exit_code = 8


class PromotionRefused(AggGenError):
    """A version may not have the alias; `failures` says each reason."""

    exit_code = 9

    def __init__(self, what: str, failures: Sequence[str]) -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join([f"{what} is refused:", *(f"  - {failure}" for failure in failures)]))
