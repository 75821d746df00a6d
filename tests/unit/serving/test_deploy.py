"""Deployment without starting Ray: resources, the served bundle, application arguments, following an alias."""

import os
from contextlib import nullcontext
from dataclasses import replace
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
from agggen_platform.serving import deploy
from agggen_platform.serving.capacity import CapacityError, check_fits, local_cpus, with_max_replicas
from agggen_platform.serving.config import SecurityConfig, ServeConfig
from agggen_platform.serving.target import Target, check_target, find_target, settings_of
from agggen_platform.storage.errors import StorageError


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
    with pytest.raises(BundleError, match="is not the expected bundle"):
        find_target(ServeConfig("bundle", fingerprint="0" * 64))


def test_an_alias_is_pinned_to_its_version(
    bundle: Path, champion: ServeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = find_target(champion)
    assert (target.source, target.display_address) == (str(bundle), "models:/agggen/1")
    monkeypatch.delenv("MLFLOW_REGISTRY_URI")
    assert find_target(target.pinned(champion)) == target  # replicas need no registry


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
            deploy.check_followed(ServeConfig(address))
    with pytest.raises(ConfigError, match="remove fingerprint and shown_as"):
        deploy.check_followed(ServeConfig("models:/agggen@champion", fingerprint="ab"))


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
        ([deploy.DeployError("broken")], [False] * 3, 1),
    ],
)
def test_a_deployment_is_retried_unless_the_bundle_is_broken(
    champion: ServeConfig,
    errors: list[AggGenError],
    deployed: list[bool],
    attempts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deploy, "check_target", lambda target: None)  # passes its self-test
    endpoint, notes = Endpoint(*errors), list[str]()
    follower = deploy.Follower(champion, endpoint, notes.append)  # type: ignore[arg-type]
    assert [follower.check() for _ in range(3)] == deployed
    assert endpoint.attempts == attempts
    assert endpoint.target.display_address == f"models:/agggen/{int(deployed[-1])}"
    for words in ("the previous bundle stays in service", "is models:/agggen/1 now"):  # reported once
        assert sum(words in text for text in notes) == 1


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A fake cluster of another process on which Serve runs at `address`; `nodes` are its nodes."""
    cluster = SimpleNamespace(address=("127.0.0.1", 8000), nodes=[{"CPU": 4.0}])
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr(deploy, "connected", lambda *_, **__: nullcontext(Cluster(cpus=4, gpus=0, local=False)))
    monkeypatch.setattr(deploy, "cluster_nodes", lambda: cluster.nodes)
    monkeypatch.setattr(deploy, "serve_address", lambda: cluster.address)
    return cluster


def test_an_endpoint_may_need_nodes_that_the_autoscaler_adds(joined: SimpleNamespace) -> None:
    """Regression: an endpoint with GPUs was refused before the autoscaler had added a GPU node."""
    joined.nodes = [{"CPU": 4.0}, {"CPU": 32.0, "GPU": 4.0}]  # the last entry: what the autoscaler may add
    with deploy.endpoint(config("generator.gpus=1"), "auto") as endpoint:
        assert endpoint.config.generator.max_replicas == 3  # an update needs one additional replica
        endpoint.target = Target("b", "b", "ab12")
        joined.address = None  # regression: AttributeError at the end of the endpoint after `serve shutdown`


def test_the_states_of_replicas_are_reported_while_they_start(
    joined: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, notes = SimpleNamespace(status="UPDATING", message="", replica_states={"STARTING": 2}), list[str]()

    def status() -> SimpleNamespace:
        state = SimpleNamespace(value="RUNNING" if len(notes) == 2 else "DEPLOYING")
        deployments = {"Generator": generator} if notes else {}
        application = SimpleNamespace(status=state, message="", deployments=deployments)
        return SimpleNamespace(applications={"agggen": application}, proxies={})

    monkeypatch.setattr("ray.serve.status", status)
    monkeypatch.setattr(deploy, "_SECONDS_BETWEEN_NOTES", -1)
    for name in ("deployed_applications", "deploy_applications", "wait_for_proxies"):
        monkeypatch.setattr(deploy, name, lambda *_: {})
    with deploy.endpoint(config(), "auto", notes.append) as endpoint:
        endpoint.deploy(Target("b", "b", "ab12"))
        joined.address = None
    assert notes == ["replicas are starting (testing the bundle)", "replicas are starting (Generator: 2 starting)"]


def test_one_setting_of_a_role_keeps_its_other_defaults() -> None:
    """Regression: `ingress.max_replicas=4` reset the other defaults of ingress and planner."""
    chosen, usual = config("ingress.max_replicas=4", "planner.min_replicas=2", "planner.max_replicas=4"), config()
    assert chosen.ingress == replace(usual.ingress, max_replicas=4)
    assert chosen.planner == replace(usual.planner, min_replicas=2, max_replicas=4)


@pytest.mark.parametrize("name", ["ingress", "planner"])
def test_deployments_that_answer_probes_do_not_scale_to_zero(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}\.min_replicas must be at least 1"):
        config(f"{name}.min_replicas=0")


@pytest.mark.parametrize(
    ("settings", "nodes", "reason"),
    [
        ((), [{"CPU": 2.0}], None),
        ((), [{"CPU": 1.0}, {"CPU": 1.0}], None),
        ((), [{"CPU": 1.5}], "the endpoint needs 2 CPUs, but the cluster has 1.5 CPUs"),
        (("generator.min_replicas=0",), [{"CPU": 1.5}], "the endpoint needs 2 CPUs"),  # also scaled to zero
        (("generator.cpus=4",), [{"CPU": 3.0}, {"CPU": 3.0}], "a replica of the generator needs 4 CPUs"),
        (("generator.gpus=1",), [{"CPU": 64.0}], "needs 1 CPUs and 1 GPUs, but the largest node"),
        (("generator.gpus=1",), [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}], None),
        (("generator.gpus=1", "generator.min_replicas=2", "generator.max_replicas=2"), [{"CPU": 9.0, "GPU": 1.0}],
         "the cluster has 9 CPUs and 1 GPUs"),
    ],
)  # fmt: skip
def test_an_endpoint_that_does_not_fit_is_refused(
    settings: tuple[str, ...], nodes: list[dict[str, float]], reason: str | None
) -> None:
    with pytest.raises(CapacityError, match=reason) if reason else nullcontext():
        check_fits(config(*settings), nodes)


NODE = {"CPU": 8.0}


@pytest.mark.parametrize(
    ("settings", "nodes", "replicas"),  # maxima of ingress, planner, generator
    [
        ((), [], (1, 1, 1)),
        ((), [{"CPU": 2.0}], (1, 1, 1)),
        ((), [NODE], (1, 1, 5)),  # an update needs one additional replica each
        (("update=replace",), [NODE], (1, 1, 7)),
        ((), [NODE] * 2, (2, 2, 12)),  # one ingress and planner for every eight generators
        (("generator.cpus=5",), [NODE] * 4, (1, 1, 3)),  # one generator per node
        (("generator.gpus=1",), [NODE | {"GPU": 4.0}], (1, 1, 3)),
        (("generator.min_replicas=9",), [NODE], (2, 2, 9)),
        (("generator.max_replicas=2", "planner.max_replicas=3"), [NODE] * 9, (1, 3, 2)),
        (("generator.max_replicas=20",), [NODE] * 9, (3, 3, 20)),
    ],
)
def test_unset_maxima_follow_the_room_of_the_cluster(
    settings: tuple[str, ...], nodes: list[dict[str, float]], replicas: tuple[int, int, int]
) -> None:
    chosen = with_max_replicas(config(*settings), nodes)
    assert (chosen.ingress.max_replicas, chosen.planner.max_replicas, chosen.generator.max_replicas) == replicas


def test_a_local_cluster_has_room_for_all_replicas_twice() -> None:
    assert local_cpus(config("generator.max_replicas=100")) == 202
    with pytest.raises(CapacityError, match="this machine has"):
        local_cpus(config(f"generator.cpus={(os.cpu_count() or 1) + 2}"))
