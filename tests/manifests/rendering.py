"""Kubernetes manifests as kustomize renders them, and the pods in them.

`rendered` runs ``kubectl kustomize`` or ``kustomize build``; where neither is installed, a test that asks for it is
skipped. `pods_of` finds every pod that the objects of an overlay describe, also those inside KubeRay's kinds.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

REPO = Path(__file__).parents[2]
KUBERAY = REPO / "infra" / "kuberay"
OVERLAYS = ("dev", "gpu")

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod that an object describes."""

    owner: str
    """The object's kind and name."""
    part: str
    """Which of the object's pods: head, a worker group's name, submitter, or pod."""
    template: Object
    """A PodTemplateSpec; the head of a cluster with an autoscaler has that container too, as KubeRay adds it."""

    def __str__(self) -> str:
        return f"{self.owner} {self.part}"

    @property
    def spec(self) -> Object:
        return self.template["spec"]

    @property
    def labels(self) -> dict[str, str]:
        return self.template.get("metadata", {}).get("labels", {})

    @property
    def containers(self) -> list[Object]:
        """Init containers first."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


def kustomizer() -> list[str] | None:
    """The command that renders a folder, without the folder; None where there is none."""
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return None


@functools.cache
def rendered(folder: Path) -> list[Object]:
    """The objects of a kustomization, which all tests share: who changes one copies it.

    Skips the test where no kustomize is installed, and fails it where one cannot render the folder.
    """
    command = kustomizer()
    if command is None:
        pytest.skip("neither kubectl nor kustomize is installed")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{folder.relative_to(REPO)} is not rendered: {done.stderr.strip()}"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(done.stdout, loader) if each]


def overlay(name: str) -> list[Object]:
    """All objects of an overlay of KubeRay: what stands all the time, the jobs, the endpoint."""
    folder = KUBERAY / "overlays" / name
    found = [*rendered(folder), *rendered(folder / "jobs"), *rendered(folder / "endpoint")]
    seen: dict[tuple[str, str], Object] = {}
    for each in found:  # the settings are in both
        key = (each["kind"], each["metadata"]["name"])
        assert seen.setdefault(key, each) == each, f"{key} is rendered twice, and not the same"
    return list(seen.values())


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """Those of a kind."""
    return [each for each in objects if each["kind"] == kind]


def named(each: Object) -> str:
    """Kind and name."""
    return f"{each['kind']} {each['metadata']['name']}"


def cluster_spec(each: Object) -> Object:
    """The RayClusterSpec of one of KubeRay's objects."""
    return {
        "RayCluster": lambda spec: spec,
        "RayService": lambda spec: spec["rayClusterConfig"],
        "RayJob": lambda spec: spec["rayClusterSpec"],
    }[each["kind"]](each["spec"])


def ray_objects(objects: Sequence[Object]) -> list[Object]:
    """KubeRay's."""
    return [each for each in objects if each["apiVersion"].startswith("ray.io/")]


def pods_of(objects: Sequence[Object]) -> Iterator[Pod]:
    """Every pod that the objects describe."""
    for each in objects:
        if each["apiVersion"].startswith("ray.io/"):
            yield from _ray_pods(each)
        elif "template" in each.get("spec", {}):
            yield Pod(named(each), "pod", each["spec"]["template"])


def _ray_pods(each: Object) -> Iterator[Pod]:
    cluster = cluster_spec(each)
    head = cluster["headGroupSpec"]["template"]
    if cluster.get("enableInTreeAutoscaling"):
        head = head | {"spec": head["spec"] | {"containers": [*head["spec"]["containers"], _autoscaler(cluster)]}}
    yield Pod(named(each), "head", head)
    for group in cluster["workerGroupSpecs"]:
        yield Pod(named(each), group["groupName"], group["template"])
    if each["kind"] == "RayJob":
        yield Pod(named(each), "submitter", each["spec"]["submitterPodTemplate"])


def _autoscaler(cluster: Object) -> Object:
    """The container that KubeRay adds to the head: the head's image, and what autoscalerOptions says."""
    options = cluster.get("autoscalerOptions", {})
    container = {
        "name": "autoscaler",
        "image": options.get("image", cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]),
        "imagePullPolicy": options.get("imagePullPolicy", "IfNotPresent"),
    }
    merged = ("env", "envFrom", "resources", "securityContext", "volumeMounts")
    return container | {name: options[name] for name in merged if name in options}
