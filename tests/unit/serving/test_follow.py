"""A followed alias: which failures are retried."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agggen.errors import AggGenError, BundleError
from agggen_platform.registry import Registry, register
from agggen_platform.serving import follow
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.errors import DeployError
from agggen_platform.storage.errors import StorageError
from tests.unit.serve.conftest import save_tiny_model


class Endpoint:
    """An endpoint whose first deployments fail with `errors`."""

    def __init__(self, *errors: AggGenError) -> None:
        self.target: Any = SimpleNamespace(shown="models:/agggen/0")
        self.errors = list(errors)
        self.attempts = 0

    def deploy(self, target: Any, stop: Any) -> None:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.target = target


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServeConfig:
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"sqlite:///{tmp_path / 'registry.db'}")
    register(str(save_tiny_model(tmp_path / "bundle")))
    Registry().set_alias("agggen", "champion", "1")
    return ServeConfig("models:/agggen@champion")


def checked(config: ServeConfig, endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bool], list[str]]:
    """Whether each of three checks deployed, and all notes; the bundle passes its self-test."""
    monkeypatch.setattr(follow, "check_target", lambda target: None)
    notes: list[str] = []
    follower = follow.Follower(config, endpoint, notes.append)
    return [follower.check() for _ in range(3)], notes


def test_a_deployment_is_retried_after_an_error_of_the_store(
    config: ServeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint(StorageError("no answer"), StorageError("no answer"))
    deployed, notes = checked(config, endpoint, monkeypatch)
    assert deployed == [False, False, True]
    assert [sum(words in text for text in notes) for words in ("no answer", "is models:/agggen/1 now")] == [1, 1]
    assert endpoint.target.shown == "models:/agggen/1"


@pytest.mark.parametrize("error", [BundleError("broken"), DeployError("broken")])
def test_a_broken_bundle_is_not_retried(
    config: ServeConfig, monkeypatch: pytest.MonkeyPatch, error: AggGenError
) -> None:
    endpoint = Endpoint(error)
    deployed, notes = checked(config, endpoint, monkeypatch)
    assert (deployed, endpoint.attempts) == ([False] * 3, 1)
    assert "the previous bundle stays in service" in notes[-1]
