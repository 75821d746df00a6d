"""Kubernetes manifests rendered by kustomize, and their pods; tests are skipped without kubectl or kustomize."""

import functools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.processes import run_program

REPO = Path(__file__).parents[2]
KUBERAY = REPO / "infra" / "kuberay"
OVERLAYS = ("dev", "gpu")

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    owner: str  # kind and name of the object
    role: str  # head, submitter, the name of a worker group, or pod
    template: Object

    def __str__(self) -> str:
        return f"{self.owner} {self.role}"

    @property
    def spec(self) -> Object:
        return self.template["spec"]

    @property
    def labels(self) -> dict[str, str]:
        return self.template.get("metadata", {}).get("labels", {})

    @property
    def containers(self) -> list[Object]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


@functools.cache
def rendered(folder: Path) -> list[Object]:
    """The objects of a kustomization; cached, so tests must not change them."""
    command = ("kubectl", "kustomize") if shutil.which("kubectl") else ("kustomize", "build")
    text = run_program(*command, folder, install="kubectl or kustomize")
    return [item for item in yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if item]


@functools.cache
def overlay(name: str) -> list[Object]:
    """All objects of an overlay: the permanent cluster, the jobs and the endpoint."""
    folder = KUBERAY / "overlays" / name
    unique: dict[tuple[str, str], Object] = {}
    for item in [*rendered(folder), *rendered(folder / "jobs"), *rendered(folder / "endpoint")]:
        key = (item["kind"], item["metadata"]["name"])
        assert unique.setdefault(key, item) == item, f"{key} is rendered twice with different contents"
    return list(unique.values())


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    return [item for item in objects if item["kind"] == kind]


def name_of(item: Object) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def ray_objects(objects: Sequence[Object]) -> list[Object]:
    return [item for item in objects if item["apiVersion"].startswith("ray.io/")]


def cluster_spec(item: Object) -> Object:
    """The RayClusterSpec of a RayCluster, RayService or RayJob."""
    key = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}.get(item["kind"])
    return item["spec"][key] if key else item["spec"]


def pods_of(objects: Sequence[Object]) -> Iterator[Pod]:
    for item in objects:
        if item in ray_objects([item]):
            cluster = cluster_spec(item)
            yield Pod(name_of(item), "head", cluster["headGroupSpec"]["template"])
            for group in cluster["workerGroupSpecs"]:
                yield Pod(name_of(item), group["groupName"], group["template"])
            if item["kind"] == "RayJob":
                yield Pod(name_of(item), "submitter", item["spec"]["submitterPodTemplate"])
        elif "template" in item.get("spec", {}):
            yield Pod(name_of(item), "pod", item["spec"]["template"])
