"""The run log: a JSONL file, which is authoritative, and a copy in MLflow for viewing. A `Tracker` logs one run.

`journal` reads and writes the file, and how much of it was sent; `sender` sends it to MLflow on a thread, `store` calls
MLflow, `backup` copies the log to the run's store.
"""

from agggen_platform.tracking.tracker import Tracker

__all__ = ["Tracker"]
