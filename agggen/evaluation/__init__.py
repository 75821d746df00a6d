"""Evaluation of texts, plans and alignments. Each score has a signature that states how it was computed."""

from __future__ import annotations

from agggen.scores import Score as Score
