"""What can go wrong with a user's input, said so that the user can mend it.

Every error a user can cause derives from :class:`AggGenError` (a ``ValueError``): it names what was wrong, where
(file, line, record id) and what would be right. The command line prints ``str(error)`` without a traceback and exits
with the class's ``exit_code``; an HTTP front end can map the same classes to statuses.
"""

from __future__ import annotations


class AggGenError(ValueError):
    """Base of all errors that a user can cause and mend."""

    exit_code = 2


class RecordError(AggGenError):
    """A record, triple or its text form is not valid."""


class PlanError(AggGenError):
    """A plan is malformed, or does not fit the record it is meant for."""


class CorpusError(AggGenError):
    """A corpus, or a file of one, is missing, unreadable or not what it should be."""


class ConfigError(AggGenError):
    """A configuration has an unknown key or a value out of range."""


class BundleError(AggGenError):
    """A model bundle is incomplete, was changed after it was saved, or is of another format version."""

    exit_code = 3


class TrainingError(AggGenError):
    """Training cannot go on (nothing to train on, a loss that is not finite, a checkpoint of another run)."""

    exit_code = 4


class StoppedError(TrainingError):
    """Training was asked to stop, and did after saving; the same command continues there."""

    def __init__(self, message: str, exit_code: int = TrainingError.exit_code) -> None:
        """`exit_code`: 128 and the signal's number, where it was a signal that asked."""
        super().__init__(message)
        self.exit_code = exit_code


class StoppedEarlyError(StoppedError):
    """Training was ended because its results fell behind those of others; it is not to be continued."""
