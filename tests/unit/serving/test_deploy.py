"""Starting and ending an endpoint; Ray is not started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from agggen.config import load_config
from agggen_platform.ray_cluster import Cluster
from agggen_platform.serving import deploy
from agggen_platform.serving.config import ServeConfig


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A cluster that another process started, on which Serve already runs at `address`; `nodes` are its nodes."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")
    cluster = SimpleNamespace(address=("127.0.0.1", 8000), nodes=[{"CPU": 4.0}])
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(deploy, "connected", lambda *_, **__: nullcontext(Cluster(cpus=4, gpus=0, local=False)))
    monkeypatch.setattr(deploy, "cluster_nodes", lambda: cluster.nodes)
    monkeypatch.setattr(deploy, "serve_address", lambda: cluster.address)
    yield cluster


def config(*settings: str) -> ServeConfig:
    return load_config(ServeConfig, None, ["bundle=b", *settings])


def test_an_endpoint_may_need_nodes_that_the_autoscaler_adds(joined: SimpleNamespace) -> None:
    """Regression: an endpoint with GPUs was refused while the cluster had no node with GPUs yet."""
    joined.nodes = [{"CPU": 4.0}, {"CPU": 32.0, "GPU": 4.0}]  # the last entry: all that may be added
    with deploy.endpoint(config("generator.gpus=1"), "auto") as endpoint:
        assert endpoint.config.generator.max_replicas == 3  # an update needs room for one more
        joined.address = None


def test_an_endpoint_whose_serve_was_shut_down_ends_without_an_error(joined: SimpleNamespace) -> None:
    """Regression: after `serve shutdown`, ending the endpoint failed with an AttributeError."""
    with deploy.endpoint(config(), "auto") as endpoint:
        endpoint.target = deploy.Target("b", "b", "ab12")
        joined.address = None
