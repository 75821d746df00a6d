"""All uses of Ray's undocumented interfaces, and why the public ones (Ray 2.60) do not suffice.

Any Ray release may change them; `tests/unit/test_ray_cluster.py` imports each.
"""

from typing import Any

from agggen_platform.ray_cluster import ClusterError, nodes

# --- Ray Serve --------------------------------------------------------------------------------------------------------
# The dashboard's REST API offers all of these functions, but a local cluster has no dashboard. `serve.run` imports the
# application in this process, and replaces all replicas at every call because it accepts no deployment version;
# `serve.status` returns no addresses or routes. These functions raise ClusterError if Serve was shut down.


def _find_client() -> Any:
    """The client of Serve on the connected cluster; None if Serve does not run."""
    from ray.serve import context

    return context._get_global_client(raise_if_no_controller_running=False)


def _client() -> Any:
    if (client := _find_client()) is None:
        raise ClusterError("Ray Serve no longer runs on the cluster: it was shut down")
    return client


def serve_address() -> tuple[str | None, int] | None:
    """Host (None without proxies) and port of Serve's proxies; None if Serve does not run."""
    client = _find_client()
    return None if client is None else (client.http_config.host, client.http_config.port)


def deploy_applications(applications: list[dict[str, Any]]) -> None:
    """Deploys these applications, and removes all others that were deployed in this way, like ``serve deploy``."""
    from ray.serve.schema import ServeDeploySchema

    _client().deploy_apps(ServeDeploySchema.model_validate({"applications": applications}))


def wait_for_proxies() -> None:
    """Waits until all proxies of Serve route to all applications; raises TimeoutError after a minute."""
    _client().wait_for_proxies_serving()


def deployed_applications() -> dict[str, dict[str, Any]]:
    """Serve's details of each application by name, such as `route_prefix` and (optional) `deployed_app_config`."""
    details: dict[str, dict[str, Any]] = _client().get_serve_details()["applications"]
    return details


# --- Ray's autoscaler -------------------------------------------------------------------------------------------------
# `ray.cluster_resources` and `ray.nodes` cover only running nodes; `ray.autoscaler.sdk` returns no limits.


def cluster_nodes() -> list[dict[str, float]]:
    """The resources of each node of the connected cluster; the last entry is what its autoscaler may add in total.

    Empty if this process is not connected to a cluster.
    """
    import ray
    from ray._private.state import state

    if not ray.is_initialized():
        return []
    running_nodes = nodes()
    limits = state.get_max_resources_from_cluster_config() or {}
    remaining = {name: limit - sum(node.get(name, 0.0) for node in running_nodes) for name, limit in limits.items()}
    return [*running_nodes, {name: amount for name, amount in remaining.items() if amount > 0}]


# --- Ray Tune ---------------------------------------------------------------------------------------------------------
# Tune has no option for which environment variables of the driver it copies to trials.


def keep_credentials_from_trials() -> None:
    """Stops Tune from copying AWS keys into the trials' runtime environment, which Ray logs and its dashboard shows."""
    from ray.tune.execution.class_cache import ENV_VARS_TO_PROPAGATE

    ENV_VARS_TO_PROPAGATE.difference_update([name for name in ENV_VARS_TO_PROPAGATE if name.startswith("AWS_")])


# --- Ray Train --------------------------------------------------------------------------------------------------------
# `ray.train` exports `ControllerError`, but not the error classes of its attribute `controller_failure`.


def startup_errors() -> tuple[type[Exception], ...]:
    """The errors of Ray Train if workers got no resources in time, or died before training began."""
    from ray.train.v2._internal.exceptions import WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError

    return WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError
