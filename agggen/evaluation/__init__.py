"""Evaluation: text metrics, plans, alignments, slot errors. Every number says in a signature how it was computed."""

from __future__ import annotations

from agggen.scores import Score as Score
