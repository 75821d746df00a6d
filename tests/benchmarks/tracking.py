"""What a call of the run log costs the run that makes it, with MLflow well, and with MLflow gone.

    python tests/benchmarks/tracking.py [--calls 3000] [--pause 0.001]

Each call logs five metrics; the pause stands for the run's own work, so that the thread that sends has its turns.
MLflow is imported before, which a run has once and which takes seconds of the interpreter. `sqlite` is a local store
that takes everything; `refused` is a server whose port is closed; `silent` one that takes
connections and never answers. Microseconds a call; `leaving` is the seconds that the end of the run took at a patience
of 2, and `sent` the entries that MLflow had then. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from agggen_platform.tracking import Tracker
from agggen_platform.tracking.runs import read_run


def measured(uri: str | None, runs: Path, calls: int, pause: float, patience: float) -> dict[str, float]:
    took: list[float] = []
    with Tracker(uri, run_name="run", runs_dir=runs, report=lambda message: None, patience=patience) as tracker:
        for step in range(calls):
            values = {f"metric_{number}": step / (1 + number) for number in range(5)}
            begin = time.perf_counter()
            tracker.log_metrics(values, step)
            took.append((time.perf_counter() - begin) * 1e6)
            time.sleep(pause)
        begin = time.monotonic()
    leaving = time.monotonic() - begin
    run = read_run(tracker.path.parent)
    return {
        "median": round(median(took), 1),
        "p99": round(quantiles(took, n=100)[98], 1),
        "max": round(max(took), 1),
        "leaving": round(leaving, 2),
        "sent": run.entries - run.unsent,
    }


def main() -> None:
    import mlflow  # noqa: F401

    parser = argparse.ArgumentParser(description="cost of a call of the run log")
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--pause", type=float, default=0.001)
    options = parser.parse_args()
    result = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket() as closed,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        closed.bind(("127.0.0.1", 0))
        stores = {
            "sqlite": None,
            "refused": f"http://127.0.0.1:{closed.getsockname()[1]}",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }
        for name, uri in stores.items():
            patience = 60.0 if name == "sqlite" else 2.0
            result[name] = measured(uri, Path(folder) / name, options.calls, options.pause, patience)
            print(f"{name:8s}" + "  ".join(f"{key} {value}" for key, value in result[name].items()), flush=True)
    settings = {"calls": options.calls, "pause": options.pause, "load": round(os.getloadavg()[0], 1)}
    print(json.dumps({"benchmark": "tracking", "unit": "us/call", "stores": result, **settings}))


if __name__ == "__main__":
    main()
