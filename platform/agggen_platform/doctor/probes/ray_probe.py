"""Prints what runs at the address of a Ray cluster, asked of its GCS with the environment's token. Joins nothing."""

import json
import sys

from ray._common.usage.usage_lib import get_cluster_metadata
from ray._private import ray_constants
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._private.utils import compute_version_info
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled
from ray.core.generated.gcs_pb2 import GcsNodeInfo

SECONDS = 5

if __name__ == "__main__":
    client = GcsClient(address=canonicalize_bootstrap_address_or_die(sys.argv[1]))
    about = get_cluster_metadata(client)
    dashboard = client.internal_kv_get(
        ray_constants.DASHBOARD_ADDRESS.encode(), namespace=ray_constants.KV_NAMESPACE_DASHBOARD, timeout=SECONDS
    )
    alive = [node for node in client.get_all_node_info(timeout=SECONDS).values() if node.state == GcsNodeInfo.ALIVE]
    own_ray, own_python = compute_version_info()[:2]
    found = {
        "ray": about["ray_version"],
        "python": about["python_version"],
        "own_ray": own_ray,
        "own_python": own_python,
        "dashboard": dashboard.decode() if dashboard else None,
        "nodes": [dict(node.resources_total) for node in alive],
    }
    print(json.dumps(found))
