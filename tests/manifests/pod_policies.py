"""The rules that every pod of ours obeys, as functions that name what breaks them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.manifests.rendering import Pod

USER = 10001
"""Of the images."""
SECRETS = {
    "agggen-ray-token": {"auth_token"},
    "agggen-s3": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
    "agggen-mlflow": {
        "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_PASSWORD",
        "session_key",
        "database_password",
    },
    "agggen-api-keys": {"keys"},
    "agggen-redis": {"password"},
    "agggen-tls": {"tls.crt", "tls.key"},
}
"""The secrets that the README tells how to make, with their keys."""
SECRET_LIKE = re.compile(r"token|passw|secret|credential|api.?key|access.?key|private", re.I)
_VOLUMES = {"emptyDir", "secret", "configMap", "projected", "persistentVolumeClaim"}
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


def faults(pod: Pod) -> list[str]:
    """What is wrong with the pod; nothing if all is well."""
    found = [*_pod_faults(pod)]
    for container in pod.containers:
        found += [f"{container['name']}: {fault}" for fault in _container_faults(pod, container)]
    return [f"{pod}: {fault}" for fault in found]


def _pod_faults(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        if spec.get(name):
            yield f"{name} is set"
    security = spec.get("securityContext", {})
    if not security.get("runAsNonRoot") or security.get("runAsUser") != USER or security.get("runAsGroup") != USER:
        yield f"does not run as user and group {USER}, never as root"
    if security.get("fsGroup") != USER:
        yield "its volumes are not its group's"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "has not the runtime's seccomp profile"
    if spec.get("automountServiceAccountToken") is not False:
        yield "every container gets a token of the Kubernetes API"
    if not spec.get("priorityClassName"):
        yield "has no priority"
    for volume in spec.get("volumes", []):
        [kind] = set(volume) - {"name"}
        if kind not in _VOLUMES:
            yield f"the volume {volume['name']} is of the kind {kind}"
        if kind == "emptyDir" and not volume[kind].get("sizeLimit"):
            yield f"the volume {volume['name']} may fill the node's disk"
        if kind == "secret":
            yield from _secret_volume_faults(volume[kind])


def _secret_volume_faults(secret: dict[str, Any]) -> Iterator[str]:
    name = secret["secretName"]
    keys = {each["key"] for each in secret.get("items", [])}
    if name not in SECRETS or not keys <= SECRETS[name]:
        yield f"the secret {name} is not documented, or not with the keys {sorted(keys)}"
    if secret.get("defaultMode", 0o644) & 0o027:
        yield f"others may read the secret {name}, or its group may write it"


def _container_faults(pod: Pod, container: dict[str, Any]) -> Iterator[str]:
    security = container.get("securityContext", {})
    if security.get("privileged") or security.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if security.get("readOnlyRootFilesystem") is not True:
        yield "may write to its image"
    if security.get("capabilities") != {"drop": ["ALL"]}:
        yield "has not dropped all capabilities"
    if any(name in security for name in ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")):
        yield "has another user or profile than its pod"
    yield from _image_faults(container["image"])
    resources = container.get("resources", {})
    for name in ("cpu", "memory", "ephemeral-storage"):
        for what in ("requests", "limits"):
            if name not in resources.get(what, {}):
                yield f"has no {what} of {name}"
    if any("hostPort" in port for port in container.get("ports", [])):
        yield "takes a port of its node"
    yield from _environment_faults(container)
    yield from _mount_faults(pod, container)


def _image_faults(image: str) -> Iterator[str]:
    tag = image.rpartition("/")[2].partition(":")[2]
    if not re.match(r"\d+\.\d+", tag):
        yield f"the image {image} is not of one version"


def _environment_faults(container: dict[str, Any]) -> Iterator[str]:
    for each in container.get("env", []):
        reference = each.get("valueFrom", {}).get("secretKeyRef")
        if reference and reference["key"] not in SECRETS.get(reference["name"], ()):
            yield f"{each['name']} is from {reference}, which is not documented"
        names_a_file = each["name"].endswith("_FILE") and each.get("value", "").startswith("/run/secrets/")
        if "value" in each and SECRET_LIKE.search(each["name"]) and not names_a_file:
            yield f"{each['name']} stands in the manifest"
        if each["name"] in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            yield f"{each['name']} is KubeRay's to set"
    if any("secretRef" in each for each in container.get("envFrom", [])):
        yield "takes whatever is in a secret"


def _mount_faults(pod: Pod, container: dict[str, Any]) -> Iterator[str]:
    volumes = {each["name"]: each for each in pod.spec.get("volumes", [])}
    mounts = {each["mountPath"]: each for each in container.get("volumeMounts", [])}
    for path, mount in mounts.items():
        volume = volumes.get(mount["name"])
        if volume is None:
            if not pod.owner.startswith("StatefulSet"):  # its claims are volumes too
                yield f"mounts {mount['name']}, which is no volume"
            continue
        if ("secret" in volume or "projected" in volume) and not mount.get("readOnly"):
            yield f"may write to {path}"
        if "projected" in volume and (container["name"], path) != ("autoscaler", _TOKEN):
            yield "has a token of the Kubernetes API"
    if pod.owner.startswith("Ray"):
        for path in ("/tmp", "/var/lib/agggen"):
            if "emptyDir" not in volumes.get(mounts.get(path, {}).get("name"), {}):
                yield f"cannot write to {path}"
