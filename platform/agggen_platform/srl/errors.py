"""Errors of the AllenNLP source."""

from __future__ import annotations

from agggen.errors import AggGenError


class AllenNLPError(AggGenError):
    """AllenNLP's environment, an archive or the worker process cannot be used."""


class WorkerDied(AllenNLPError):
    """The worker process ended, or was ended because it did not answer in time."""
