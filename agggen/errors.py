"""Errors that a user can cause and correct.

A message states what is wrong, where (file, line, record id), and what is valid. The command line prints it without a
traceback and exits with ``exit_code``.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches


class AggGenError(ValueError):
    """Base of all errors that a user can cause."""

    exit_code = 2


class RecordError(AggGenError):
    """A record, a triple or its text form is invalid."""


class PlanError(AggGenError):
    """A plan is malformed or does not fit its record."""


class CorpusError(AggGenError):
    """A corpus or one of its files is missing, unreadable or invalid."""


class ConfigError(AggGenError):
    """A setting is unknown or has an invalid value."""


class BundleError(AggGenError):
    """A model bundle is incomplete, modified, or of another format version."""

    exit_code = 3


class TrainingError(AggGenError):
    """Training cannot continue: no training texts, a loss that is not finite, a checkpoint of another run."""

    exit_code = 4


class StoppedError(TrainingError):
    """Training was interrupted and its state was saved; the same command continues the run."""

    def __init__(self, message: str, exit_code: int = TrainingError.exit_code) -> None:
        """After a signal, `exit_code` is 128 plus its number."""
        super().__init__(message)
        self.exit_code = exit_code


class StoppedEarlyError(StoppedError):
    """Training was ended because other runs had better results; the run must not be continued."""


def hint(name: str, known_names: Collection[str]) -> str:
    """The end of a message about an unknown name: the most similar known name, if any, and all known names."""
    similar = get_close_matches(name, known_names, 1)
    return (f"did you mean {similar[0]}? There are " if similar else "there are ") + (", ".join(known_names) or "none")


def check_below_one(section: object, names: Collection[str], prefix: str = "") -> None:
    """Raises ConfigError, with `prefix` before the setting's name, if a setting is not in [0, 1)."""
    for name in names:
        if not 0 <= getattr(section, name) < 1:
            raise ConfigError(f"{prefix}{name} must be at least 0 and less than 1, not {getattr(section, name)}")


def check_minima(section: object, minima: Mapping[str, float], prefix: str = "") -> None:
    """Raises ConfigError, with `prefix` before the setting's name, if a setting is below its minimum or NaN."""
    for name, minimum in minima.items():
        if not getattr(section, name) >= minimum:
            raise ConfigError(f"{prefix}{name} must be at least {minimum}, not {getattr(section, name)}")
