"""Deployment without starting Ray: the served bundle, application arguments, following an alias, start and end."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from agggen.bundle import fingerprint
from agggen.config import load_config
from agggen.errors import AggGenError, BundleError, ConfigError
from agggen_platform.ray_cluster import Cluster
from agggen_platform.registry import Registry, register
from agggen_platform.serving import deploy, follow
from agggen_platform.serving.config import SecurityConfig, ServeConfig
from agggen_platform.serving.errors import DeployError
from agggen_platform.serving.target import Target, check_target, find_target, settings_of
from agggen_platform.storage.errors import StorageError
from tests.unit.serve.conftest import save_tiny_model


def config(*settings: str) -> ServeConfig:
    return load_config(ServeConfig, None, ["bundle=b", *settings])


@pytest.fixture
def champion(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServeConfig:
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", f"sqlite:///{tmp_path / 'registry.db'}")
    register(str(bundle))
    Registry().set_alias("agggen", "champion", "1")
    return ServeConfig("models:/agggen@champion")


def test_a_folder_is_pinned_by_path_and_fingerprint(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle.parent)
    target, address = find_target(ServeConfig("bundle")), str(bundle)
    assert (target.source, target.display_address, target.fingerprint) == (address, address, fingerprint(bundle))
    check_target(target)
    assert find_target(target.pinned(ServeConfig("bundle"))) == target


def test_an_alias_is_pinned_to_its_version(
    bundle: Path, champion: ServeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = find_target(champion)
    assert (target.source, target.display_address) == (str(bundle), "models:/agggen/1")
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    assert find_target(target.pinned(champion)) == target  # replicas need no registry


def test_another_fingerprint_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = fingerprint(save_tiny_model(tmp_path / "other", 9))
    with pytest.raises(BundleError, match="is not the expected bundle"):
        find_target(ServeConfig(str(bundle), fingerprint=other))


def test_arguments_are_the_same_flat_and_nested() -> None:
    flat = {"bundle": "s3://models/a", "generator.max_replicas": "4", "security.hosts": "[a.example]"}
    nested = {"bundle": "s3://models/a", "generator": {"max_replicas": 4}, "security": {"hosts": ["a.example"]}}
    assert load_config(ServeConfig, None, settings_of(flat)) == load_config(ServeConfig, None, settings_of(nested))
    with pytest.raises(ConfigError, match="did you mean"):
        load_config(ServeConfig, None, settings_of({"bundle": "b", "generator": {"max_replica": 4}}))


def test_an_application_contains_its_configuration(bundle: Path) -> None:
    config = ServeConfig(str(bundle), security=SecurityConfig(hosts=("a.example",)))
    target = find_target(config)
    (application,) = yaml.safe_load(deploy.deploy_file(config, target))["applications"]
    assert application == deploy.application_of(target.pinned(config))
    assert load_config(ServeConfig, None, settings_of(application["args"])) == target.pinned(config)


def test_only_an_alias_can_be_followed() -> None:
    for address in ("runs/a/bundle", "s3://models/a", "models:/agggen/3"):
        with pytest.raises(ConfigError, match="needs a registry alias"):
            follow.check_followed(ServeConfig(address))
    with pytest.raises(ConfigError, match="remove fingerprint and shown_as"):
        follow.check_followed(ServeConfig("models:/agggen@champion", fingerprint="ab"))


class Endpoint:
    """A fake endpoint whose first deployments fail with `errors`."""

    def __init__(self, *errors: AggGenError) -> None:
        self.target: Any = SimpleNamespace(display_address="models:/agggen/0")
        self.errors = list(errors)
        self.attempts = 0

    def deploy(self, target: Any, stop: Any) -> None:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.target = target


@pytest.mark.parametrize(
    ("errors", "deployed", "attempts"),
    [
        ([StorageError("no answer"), StorageError("no answer")], [False, False, True], 3),
        ([BundleError("broken")], [False] * 3, 1),
        ([DeployError("broken")], [False] * 3, 1),
    ],
)
def test_a_deployment_is_retried_unless_the_bundle_is_broken(
    champion: ServeConfig,
    errors: list[AggGenError],
    deployed: list[bool],
    attempts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow, "check_target", lambda target: None)  # passes its self-test
    endpoint, notes = Endpoint(*errors), list[str]()
    follower = follow.Follower(champion, endpoint, notes.append)  # type: ignore[arg-type]
    assert [follower.check() for _ in range(3)] == deployed
    assert endpoint.attempts == attempts
    assert endpoint.target.display_address == f"models:/agggen/{int(deployed[-1])}"
    for words in ("the previous bundle stays in service", "is models:/agggen/1 now"):  # reported once
        assert sum(words in text for text in notes) == 1


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A fake cluster of another process on which Serve runs at `address`; `nodes` are its nodes."""
    cluster = SimpleNamespace(address=("127.0.0.1", 8000), nodes=[{"CPU": 4.0}])
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr(deploy, "connected", lambda *_, **__: nullcontext(Cluster(cpus=4, gpus=0, local=False)))
    monkeypatch.setattr(deploy, "cluster_nodes", lambda: cluster.nodes)
    monkeypatch.setattr(deploy, "serve_address", lambda: cluster.address)
    yield cluster


def test_an_endpoint_may_need_nodes_that_the_autoscaler_adds(joined: SimpleNamespace) -> None:
    """Regression: an endpoint with GPUs was refused before the autoscaler had added a GPU node."""
    joined.nodes = [{"CPU": 4.0}, {"CPU": 32.0, "GPU": 4.0}]  # the last entry: what the autoscaler may add
    with deploy.endpoint(config("generator.gpus=1"), "auto") as endpoint:
        assert endpoint.config.generator.max_replicas == 3  # an update needs one additional replica
        joined.address = None


def test_an_endpoint_whose_serve_was_shut_down_ends_without_an_error(joined: SimpleNamespace) -> None:
    """Regression: AttributeError at the end of the endpoint after `serve shutdown`."""
    with deploy.endpoint(config(), "auto") as endpoint:
        endpoint.target = Target("b", "b", "ab12")
        joined.address = None
