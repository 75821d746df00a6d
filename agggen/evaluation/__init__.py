"""Evaluation: text metrics, plans, alignments, verification. Every number comes with a signature of how it was computed."""

from __future__ import annotations

from agggen.score import Score as Score
