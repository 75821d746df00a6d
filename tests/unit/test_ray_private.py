"""Undocumented names of Ray, which an upgrade may move or remove."""

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[dev]'")


def test_ray_serve_has_the_used_client_methods() -> None:
    from ray.serve._private.client import ServeControllerClient
    from ray.serve.context import _get_global_client

    assert callable(_get_global_client)
    for name in ("http_config", "deploy_apps", "get_serve_details", "wait_for_proxies_serving"):
        assert hasattr(ServeControllerClient, name), name


def test_ray_tune_copies_no_credentials_to_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray import tune
    from ray.tune.execution.class_cache import _ActorClassCache

    from agggen_platform.ray_private import keep_credentials_from_trials

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "RAY_CHDIR_TO_TRIAL_DIR"):
        monkeypatch.setenv(name, "0")
    keep_credentials_from_trials()
    copied = _ActorClassCache().get(tune.Trainable)._default_options["runtime_env"]["env_vars"]
    assert "RAY_CHDIR_TO_TRIAL_DIR" in copied
    assert not [name for name in copied if name.startswith("AWS_")]


def test_ray_train_has_the_used_startup_errors() -> None:
    from agggen_platform.ray_private import startup_errors

    assert all(issubclass(error, Exception) for error in startup_errors())
