"""The Kubernetes manifests: valid objects, unprivileged pods, no secrets in plain text, restricted networks.

KubeRay's own objects are not validated here: ``kubectl apply`` does this by its CRDs.
"""

import functools
import json
import re
from typing import Any

import pytest
import yaml

from tests.manifests.rendering import (
    KUBERAY,
    OVERLAYS,
    Object,
    cluster_spec,
    name_of,
    of_kind,
    overlay,
    pods_of,
    ray_objects,
)

KUBERNETES = "1.32"
USER = 10001
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
SECRETS = {
    "agggen-ray-token": {"auth_token"},
    "agggen-s3": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    "agggen-mlflow": {"MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "session_key", "database_password"},
    "agggen-api-keys": {"keys"},
    "agggen-redis": {"password"},
    "agggen-tls": set(),  # kubectl sets the keys of a TLS secret
}
"""The keys of each secret that README.md describes."""
SECRET_NAME = re.compile(r"token|passw|secret|credential|api.?key|access.?key|private", re.I)


@pytest.fixture(params=OVERLAYS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return overlay(request.param)


# --- validity ------------------------------------------------------------------------------------------------------


@functools.cache  # the overlays share most objects
def schema_error(text: str) -> str:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    try:
        validator.validate(json.loads(text), KUBERNETES, strict=True)
    except validator.ValidationError as error:
        return f"{'.'.join(str(part) for part in error.path)}: {error.message}"
    return ""


def test_objects_and_pod_templates_are_valid(objects: list[Object]) -> None:
    checked = {name_of(item): item for item in objects if item not in ray_objects(objects)}
    for pod in pods_of(ray_objects(objects)):
        meta = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "any"}}
        checked[str(pod)] = meta | {"template": pod.template}
    assert len(checked) > 35
    assert {key: error for key, item in checked.items() if (error := schema_error(json.dumps(item)))} == {}


def test_objects_referred_to_by_pods_exist(objects: list[Object]) -> None:
    existing = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for pod in pods_of(objects):
        needed = {("PriorityClass", pod.spec["priorityClassName"])}
        needed |= {("ServiceAccount", account) for account in [pod.spec.get("serviceAccountName")] if account}
        needed |= {("PersistentVolumeClaim", c["claimName"]) for c in values(pod.spec, "persistentVolumeClaim")}
        for key in ("configMap", "configMapRef", "configMapKeyRef"):
            needed |= {("ConfigMap", source["name"]) for source in values(pod.spec, key) if "name" in source}
        needed.discard(("ConfigMap", "kube-root-ca.crt"))  # created by Kubernetes
        assert needed <= existing, f"{pod} refers to missing objects: {needed - existing}"


def values(tree: Any, key: str) -> list[Any]:
    """All values of a key, at any depth."""
    match tree:
        case dict():
            return [value for name, value in tree.items() if name == key] + [
                nested for value in tree.values() for nested in values(value, key)
            ]
        case list():
            return [nested for value in tree for nested in values(value, key)]
    return []


# --- pods ----------------------------------------------------------------------------------------------------------


def test_pods_are_unprivileged_and_bounded(objects: list[Object]) -> None:
    pods = list(pods_of(objects))
    assert len(pods) > 14
    for pod in pods:
        security = pod.spec["securityContext"]
        assert security["runAsNonRoot"] is True, str(pod)
        assert {security["runAsUser"], security["runAsGroup"], security["fsGroup"]} == {USER}, str(pod)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, str(pod)
        assert pod.spec["automountServiceAccountToken"] is False, str(pod)
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec), str(pod)
        for volume in pod.spec.get("volumes", []):
            assert "hostPath" not in volume, str(pod)
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], f"{pod} may fill the node's disk"
        for container in pod.containers:
            assert container["securityContext"] == RESTRICTED, str(pod)
            for kind in ("requests", "limits"):
                assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"][kind]), str(pod)
        if pod.owner.startswith("Ray"):
            writable = {mount["mountPath"] for mount in pod.containers[0]["volumeMounts"]}
            assert {"/tmp", "/var/lib/agggen"} <= writable, str(pod)
    for options in values(ray_objects(objects), "autoscalerOptions"):
        assert options["securityContext"] == RESTRICTED


# --- secrets -------------------------------------------------------------------------------------------------------


def test_no_secret_is_in_plain_text(objects: list[Object]) -> None:
    assert of_kind(objects, "Secret") == []
    for item in of_kind(objects, "ConfigMap"):
        assert not any(SECRET_NAME.search(key) for key in item["data"]), name_of(item)
        assert not any("@" in value for value in item["data"].values()), f"{name_of(item)}: a password in a URL?"
    for pod in pods_of(objects):
        for variable in values(pod.template, "env"):
            for entry in variable:
                is_file = entry["name"].endswith("_FILE") and entry.get("value", "").startswith("/run/secrets/")
                assert "value" not in entry or is_file or not SECRET_NAME.search(entry["name"]), f"{pod}: {entry}"


def test_secrets_are_documented_and_readable_by_their_group_only(objects: list[Object]) -> None:
    readme = (KUBERAY / "README.md").read_text(encoding="utf-8")
    for pod in pods_of(objects):
        for secret in values(pod.template, "secret"):
            assert {item["key"] for item in secret.get("items", [])} <= SECRETS[secret["secretName"]], str(pod)
            assert secret["defaultMode"] & 0o027 == 0, f"{pod}: other users may read {secret['secretName']}"
        for reference in values(pod.template, "secretKeyRef"):
            assert reference["key"] in SECRETS[reference["name"]], f"{pod}: {reference}"
    text = yaml.safe_dump(overlay("gpu")) + yaml.safe_dump(overlay("dev"))
    for secret, keys in SECRETS.items():
        assert secret in text, f"{secret} is not used"
        assert re.search(rf"create secret \w+ {secret}\b", readme), f"README.md does not say how to create {secret}"
        assert all(f"{key}=" in readme for key in keys), f"README.md does not name the keys of {secret}"


def test_ray_clusters_require_a_token(objects: list[Object]) -> None:
    for item in ray_objects(objects):
        assert cluster_spec(item)["authOptions"] == {"mode": "token", "secretName": "agggen-ray-token"}, name_of(item)


# --- networks ------------------------------------------------------------------------------------------------------


def selects(selector: Object, labels: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions", [])
    assert all(expression["operator"] == "In" for expression in expressions)
    return all(labels.get(expression["key"]) in expression["values"] for expression in expressions) and all(
        labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()
    )


def peers(objects: list[Object], direction: str, side: str) -> list[tuple[Object, Object, list[int]]]:
    """(policy, peer, ports) of each rule of the network policies."""
    return [
        (policy, peer, [port["port"] for port in rule.get("ports", [])])
        for policy in of_kind(objects, "NetworkPolicy")
        for rule in policy["spec"].get(direction, [])
        for peer in rule[side]
    ]


def test_connections_are_denied_unless_a_policy_of_the_pod_allows_them(objects: list[Object]) -> None:
    policies = {item["metadata"]["name"]: item["spec"] for item in of_kind(objects, "NetworkPolicy")}
    assert policies.pop("default-deny") == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    inbound = [spec["podSelector"] for spec in policies.values() if "Ingress" in spec["policyTypes"]]
    for pod in pods_of(objects):
        assert any(selects(selector, pod.labels) for selector in inbound), str(pod)


def test_other_namespaces_reach_three_ports_and_pods_never_reach_the_metadata_service(objects: list[Object]) -> None:
    admitted = set()
    for policy, peer, ports in peers(objects, "ingress", "from"):
        assert "ipBlock" not in peer, name_of(policy)
        if "namespaceSelector" in peer:
            namespace = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            admitted |= {(namespace, port) for port in ports or ["any"]}
    assert admitted == {("ingress-nginx", 8000), ("kuberay-system", 8265), ("monitoring", 8080)}
    for policy, peer, ports in peers(objects, "egress", "to"):
        if block := peer.get("ipBlock"):
            assert ports and (block["cidr"] != "0.0.0.0/0" or "169.254.0.0/16" in block["except"]), name_of(policy)


def test_ports_of_policies_and_services_are_ports_of_their_pods(objects: list[Object]) -> None:
    listening = [
        (pod.labels, {value for port in values(pod.template, "ports") for item in port for value in item.values()})
        for pod in pods_of(objects)
    ]
    for policy, _, ports in peers(objects, "ingress", "from"):
        selected = [bound for labels, bound in listening if selects(policy["spec"]["podSelector"], labels)]
        assert selected and all(set(ports) <= bound for bound in selected), name_of(policy)
    for service in of_kind(objects, "Service"):
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP", name_of(service)
        [bound] = [
            bound for labels, bound in listening if selects({"matchLabels": service["spec"]["selector"]}, labels)
        ]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= bound, name_of(service)
