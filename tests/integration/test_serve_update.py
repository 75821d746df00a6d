"""The alias of a served model is moved: under load, to a broken bundle, to a bundle that fails in its replica."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agggen.bundle import fingerprint
from agggen_platform.registry import Registry, register
from agggen_platform.serving.deploy import DeployError, Endpoint, Follower
from agggen_platform.serving.target import Target
from tests.processes import until
from tests.serve_app import Load, replicas, serving
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The bundles of a registered model by version; the alias `champion` names version 1."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_REGISTRY_URI", f"sqlite:///{folder / 'registry.db'}")
        bundles = {}
        for seed in (1, 2, 3):
            bundle = save_tiny_model(folder / f"bundle-{seed}", seed)
            bundles[register(str(bundle)).number] = bundle
        Registry().set_alias("agggen", "champion", "1")
        weights = bundles["3"] / "weights.safetensors"  # version 3 is damaged after its registration
        weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\xff\xff\xff")
        yield bundles


@pytest.fixture(scope="module")
def served(bundles: dict[str, Path], ray_cluster: None) -> Iterator[Endpoint]:
    with serving("models:/agggen@champion") as endpoint:
        yield endpoint


def models(body: bytes) -> set[str]:
    """The fingerprints of the bundles that generated the answers of a response body."""
    return {answer["model"] for answer in json.loads(body)["answers"]}


def card(served: Endpoint) -> tuple[str, str]:
    """Address and fingerprint of the served model, which an ingress may cache for CARD_CACHE_SECONDS."""
    model = httpx.get(f"{served.url}/v1/model", timeout=60).json()
    return model["address"], model["fingerprint"]


def test_a_moved_alias_is_rolled_out_under_load_without_a_failed_request(
    served: Endpoint, bundles: dict[str, Path]
) -> None:
    messages = list[str]()
    follower = Follower(served.config, served, messages.append)
    old, new = fingerprint(bundles["1"]), fingerprint(bundles["2"])
    assert card(served) == ("models:/agggen/1", old)
    assert not follower.check()  # the alias has not moved
    before = replicas("Planner")
    with Load(served.url) as load:
        assert not replicas("Planner") - before
        Registry().set_alias("agggen", "champion", "2")
        assert follower.check(), messages
        until(lambda: models(list(load.answers.values())[-1]) == {new}, "answers of the new bundle")
    assert (load.failures(), load.lost) == ({}, [])
    assert set.union(*map(models, load.answers.values())) == {old, new}
    until(lambda: card(served) == ("models:/agggen/2", new), "the card of the new bundle")
    assert not follower.check()


def test_a_bundle_damaged_on_disk_is_not_deployed_and_reported_once(served: Endpoint, bundles: dict[str, Path]) -> None:
    messages = list[str]()
    follower = Follower(served.config, served, messages.append)
    before, planners = card(served), replicas("Planner")
    with Load(served.url) as load:
        Registry().set_alias("agggen", "champion", "3")
        assert not follower.check()
        assert not follower.check()
    assert (load.failures(), load.lost) == ({}, [])
    (text,) = messages
    assert "weights.safetensors" in text
    assert "the previous bundle stays in service" in text
    assert (card(served), replicas("Planner")) == (before, planners)
    with pytest.raises(DeployError, match="size or SHA-256"):  # the replica loads it, as after `serve deploy`
        served.deploy(Target(str(bundles["3"]), "broken", fingerprint(bundles["3"])))
    assert served.state().status == "RUNNING"
    assert (card(served), replicas("Planner")) == (before, planners)


_FAILING_LOAD = """
import agggen.bundle

def broken(path):
    raise agggen.bundle.BundleError("broken only in this replica")

agggen.bundle.load_bundle = broken
"""


def test_a_bundle_that_fails_only_in_its_replica_is_not_deployed(
    served: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_FAILING_LOAD)
    environment = {"env_vars": {"PYTHONPATH": str(tmp_path)}}
    failing_generator = {"name": "Generator", "ray_actor_options": {"num_cpus": 0.2, "runtime_env": environment}}
    apply = served._apply

    def apply_with_failing_replicas(target: Target) -> None:
        apply(target, *([failing_generator] if target.display_address == "broken inside" else []))

    monkeypatch.setattr(served, "_apply", apply_with_failing_replicas)
    before, generators = card(served), replicas("Generator")
    source = save_tiny_model(tmp_path / "bundle", 4)
    with Load(served.url) as load:
        with pytest.raises(DeployError, match="broken only in this replica"):
            served.deploy(Target(str(source), "broken inside", fingerprint(source)))
        assert load.failures() == {}
    assert (load.failures(), load.lost) == ({}, [])
    assert served.state().status == "RUNNING"
    until(lambda: card(served) == before, "the card of the old bundle")
    assert replicas("Generator") & generators
