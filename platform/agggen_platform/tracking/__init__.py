"""The run log: JSON lines, which are authoritative, and a copy in MLflow for viewing. `Tracker` is one run.

`journal` is the file, `cursor` how much of it MLflow has, `sender` the thread that sends it, `store` MLflow itself,
`runs` the runs of a folder; `origin` is code, command and machine, `system` their load,
`transitions` a table of the model.
"""

from agggen_platform.tracking.tracker import Tracker

__all__ = ["Tracker"]
