"""The run log: JSON lines that are the truth, and MLflow beside them for looking at. `Tracker` is one run."""

from agggen_platform.tracking.tracker import Tracker

__all__ = ["Tracker"]
