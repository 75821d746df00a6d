"""A SQLite MLflow shared by all tests of tracking, since creating one takes seconds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.tracking import Tracker


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with an MLflow database."""
    folder = tmp_path_factory.mktemp("runs of a test")
    with Tracker(experiment="toys", run_name="first", runs_dir=folder):
        pass
    return folder


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def track(runs: Path, messages: list[str], request: pytest.FixtureRequest) -> Callable[..., Tracker]:
    """Returns a function that creates the tracker of a run named after the test."""

    def make(name: str = "", **options: Any) -> Tracker:
        run_name = f"{request.node.originalname}{name}"
        return Tracker(experiment="toys", run_name=run_name, runs_dir=runs, report=messages.append, **options)

    return make


def run_of(tracker: Tracker) -> Any:
    return mlflow_client(tracker.uri).get_run(str(tracker.run_id))


def curve(tracker: Tracker, metric: str) -> list[tuple[int, float]]:
    """The points (step, value) of a metric in MLflow, by step."""
    points = mlflow_client(tracker.uri).get_metric_history(str(tracker.run_id), metric)
    return sorted((point.step, point.value) for point in points)
