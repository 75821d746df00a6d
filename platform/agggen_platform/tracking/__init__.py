"""The run log: JSON lines that are the truth, and MLflow beside them for looking at. `Tracker` is one run.

`journal` is the file, `cursor` how far MLflow has it, `sender` the thread that carries it there, `store` MLflow itself,
`runs` the runs of a folder; `origin` says where a run comes from, `system` what it takes, `plots` what it learned.
"""

from agggen_platform.tracking.tracker import Tracker

__all__ = ["Tracker"]
