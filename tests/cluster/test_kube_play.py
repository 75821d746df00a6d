"""MLflow's pod from its Kubernetes manifest, run by ``podman kube play``.

The test replaces the image name, the database (by SQLite, since no PostgreSQL image is available), and what podman 4.3
does not support: it crashes if a secret's volume lacks `optional`, ignores its `items`, does not decode base64 values,
and reads the secrets of variables as JSON.
"""

import base64
import copy
import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cluster.containers import MLFLOW_IMAGE, PODMAN, address_of, is_reachable, podman
from tests.manifests.rendering import of_kind, overlay
from tests.processes import until

pytestmark = pytest.mark.cluster

NAME = "agggen-mlflow"
ACCOUNT = {"username": "admin", "password": "a-password-of-tests"}


def encoded(data: dict[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


def test_the_mlflow_pod_responds(container_engine: None, tmp_path: Path) -> None:
    objects = overlay("dev")
    (deployment,) = (copy.deepcopy(item) for item in of_kind(objects, "Deployment") if item["metadata"]["name"] == NAME)
    pod = deployment["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = MLFLOW_IMAGE
    (database,) = (item for item in pod["containers"][0]["env"] if item["name"] == "MLFLOW_BACKEND_STORE_URI")
    database["value"] = "sqlite:////var/lib/agggen/mlflow.db"
    for volume in pod["volumes"]:
        if "secret" in volume:
            volume["secret"]["optional"] = False
    account = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}}
    account["data"] = encoded(ACCOUNT | {"session_key": "key", "database_password": "none"})
    settings = [
        item for item in of_kind(objects, "ConfigMap") if item["metadata"]["name"].startswith("agggen-settings")
    ]
    manifest, store, limits = tmp_path / "pod.yaml", tmp_path / "store.json", tmp_path / "containers.conf"
    manifest.write_text(yaml.safe_dump_all([*settings, account, deployment]))
    store.write_text(json.dumps(encoded({"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"})))
    limits.write_text('[containers]\ndefault_ulimits = ["nofile=16384:16384", "nproc=4000:4000"]\n')
    podman("secret", "create", "agggen-s3", str(store))
    podman("network", "create", "--internal", "agggen-pod")
    try:
        play = [*PODMAN, "kube", "play", "--network=agggen-pod", str(manifest)]
        env = os.environ | {"CONTAINERS_CONF": str(limits)}
        completed = subprocess.run(play, env=env, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stderr
        container = f"{NAME}-pod-0-mlflow"
        podid = podman("inspect", "--format={{.Pod}}", container).stdout.strip()
        infra = podman("pod", "inspect", "--format={{.InfraContainerID}}", podid).stdout.strip()
        address, host = f"http://{address_of(infra)}:5000", "agggen-mlflow:5000"
        until(lambda: is_reachable(f"{address}/health", host), "answer of MLflow")
        url, account = f"{address}/api/2.0/mlflow/experiments/search?max_results=1", tuple(encoded(ACCOUNT).values())
        for header, auth, status in ((host, account, 200), (host, None, 401), ("elsewhere", account, 403)):
            headers = {"Host": header}
            assert httpx.get(url, headers=headers, auth=auth, timeout=20, trust_env=False).status_code == status
        config = podman("inspect", "--format={{.Config.User}} {{.HostConfig.ReadonlyRootfs}}", container).stdout.split()
        assert config == ["10001:10001", "true"]
    finally:
        podman("kube", "down", str(manifest), check=False)
        podman("secret", "rm", "agggen-s3", NAME, check=False)
        podman("volume", "rm", "--force", NAME, check=False)
        podman("network", "rm", "--force", "agggen-pod", check=False)
