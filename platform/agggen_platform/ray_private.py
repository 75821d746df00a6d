"""Every name of Ray that is used although Ray does not document it, in one place.

Ray may move them in any release; `tests/unit/test_ray_private.py` imports each.
"""

from __future__ import annotations

from typing import Any

from agggen_platform.ray_cluster import nodes

# --- Ray Serve: deploying by import path without the dashboard, and where the proxies listen -----------------------


def serve_client() -> Any:
    """The client of the Serve that runs on the connected cluster; None where none runs."""
    from ray.serve.context import _get_global_client

    return _get_global_client(raise_if_no_controller_running=False)


def serve_address() -> tuple[str | None, int] | None:
    """The host and port of Serve's proxies, host None for no proxies; None where no Serve runs."""
    client = serve_client()
    return None if client is None else (client.http_config.host, client.http_config.port)


def deploy_applications(applications: list[dict[str, Any]]) -> None:
    """What ``serve deploy`` of a file with these applications does; others that were deployed so are taken down."""
    from ray.serve.schema import ServeDeploySchema

    serve_client().deploy_apps(ServeDeploySchema.model_validate({"applications": applications}))


def wait_for_proxies() -> None:
    """Returns when each of Serve's proxies knows the routes of all applications; raises TimeoutError after a minute."""
    serve_client().wait_for_proxies_serving()


def deployed_applications() -> dict[str, dict[str, Any]]:
    """The details of each application: among others `route_prefix` and, where one was given, `deployed_app_config`."""
    details: dict[str, dict[str, Any]] = serve_client().get_serve_details()["applications"]
    return details


# --- Ray's autoscaler: what the cluster may become -------------------------------------------------------------------


def cluster_nodes() -> list[dict[str, float]]:
    """The resources of each node of the connected cluster, and of all that its autoscaler may add as one more.

    Empty where this process is not connected.
    """
    import ray
    from ray._private.state import state

    if not ray.is_initialized():
        return []
    present = nodes()
    limits = state.get_max_resources_from_cluster_config() or {}
    more = {name: most - sum(node.get(name, 0.0) for node in present) for name, most in limits.items()}
    return [*present, {name: amount for name, amount in more.items() if amount > 0}]


# --- Ray Tune: what it copies from the driver's environment to each trial ---------------------------------------------


def keep_credentials_from_trials() -> None:
    """Tune would copy AWS keys into the actors' runtime environment, which Ray logs and its dashboard shows.

    Trials read the environment of their node, as all other tasks do.
    """
    from ray.tune.execution.class_cache import ENV_VARS_TO_PROPAGATE

    ENV_VARS_TO_PROPAGATE.difference_update([name for name in ENV_VARS_TO_PROPAGATE if name.startswith("AWS_")])


# --- Ray Train: errors after which the worker group is asked for again ----------------------------------------------


def startup_errors() -> tuple[type[Exception], ...]:
    """What Ray Train raises where workers found no room in time, or died before they began to train."""
    from ray.train.v2._internal.exceptions import WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError

    return WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError
