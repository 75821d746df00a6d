"""The run log: JSON lines, which are authoritative, and a copy in MLflow for viewing. `Tracker` is one run.

`journal` is the file, `cursor` how much of it MLflow has, `sender` the thread that sends it, `store` the run in MLflow,
`stored` the log's copy in the run's store, `runs` the runs of a folder. `origin` describes code, command and machine,
`system` measures CPU, memory and GPUs, `transitions` is a table of the model's transitions.
"""

from agggen_platform.tracking.tracker import Tracker

__all__ = ["Tracker"]
