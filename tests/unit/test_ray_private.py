"""Names of Ray that it does not document: an upgrade that moves one fails here, by its name."""

from __future__ import annotations

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")


def test_the_client_of_ray_serve() -> None:
    from ray.serve._private.client import ServeControllerClient
    from ray.serve.context import _get_global_client

    assert callable(_get_global_client)
    for name in ("http_config", "deploy_apps", "get_serve_details", "wait_for_proxies_serving"):
        assert hasattr(ServeControllerClient, name), name


def test_the_startup_errors_of_ray_train() -> None:
    from agggen_platform.ray_private import startup_errors

    assert all(issubclass(error, Exception) for error in startup_errors())
