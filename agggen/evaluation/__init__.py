"""Evaluation of texts, plans and alignments. Each score has a signature that states how it was computed."""

from __future__ import annotations

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


def method(signature: str) -> str:
    """The part of a signature that comparable scores have in common: everything except the counts ``|said:...``."""
    return re.sub(r"\|said:[^|]*", "", signature)
