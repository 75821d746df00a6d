"""Evaluation of texts, plans and alignments."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """A number with a signature that states how it was computed; ``str(score)`` shows both."""

    value: float
    signature: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.signature})"


def without_counts(signature: str) -> str:
    """A signature without the counts ``|said:...``; equal for scores that were computed in the same way."""
    return re.sub(r"\|said:[^|]*", "", signature)
