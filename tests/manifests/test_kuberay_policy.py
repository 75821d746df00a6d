"""What no manifest of ours may do, whatever the schema allows; and that each rule finds what breaks it."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.manifests.pod_policies import SECRET_LIKE, SECRETS, faults
from tests.manifests.rendering import (
    KUBERAY,
    OVERLAYS,
    REPO,
    Pod,
    cluster_spec,
    named,
    of_kind,
    overlay,
    pods_of,
    ray_objects,
)

WITHOUT_NAMESPACE = {"Namespace", "PriorityClass"}
SPOT = {"spot-cpu", "spot-gpu"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_pod_obeys_the_rules(name: str) -> None:
    pods = list(pods_of(overlay(name)))
    assert len(pods) > 14
    assert [fault for each in pods for fault in faults(each)] == []


def broken(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    """The faults of the endpoint's head after `change` of its template; it has none before."""
    head = next(each for each in pods_of(overlay("gpu")) if each.owner == "RayService agggen" and each.part == "head")
    template = copy.deepcopy(head.template)
    change(template["spec"])
    return faults(Pod(head.owner, head.part, template))


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "hostNetwork is set": lambda spec: spec.update(hostNetwork=True),
    "never as root": lambda spec: spec["securityContext"].update(runAsUser=0),
    "another user": lambda spec: spec["containers"][0]["securityContext"].update(runAsUser=0),
    "gain privileges": lambda spec: spec["containers"][0]["securityContext"].update(privileged=True),
    "write to its image": lambda spec: spec["containers"][1]["securityContext"].pop("readOnlyRootFilesystem"),
    "dropped all": lambda spec: spec["containers"][0]["securityContext"].update(capabilities={"add": ["NET_ADMIN"]}),
    "seccomp": lambda spec: spec["securityContext"].pop("seccompProfile"),
    "is not of one version": lambda spec: spec["containers"][0].update(image="registry:5000/agggen"),
    "agggen:latest is not": lambda spec: spec["containers"][0].update(image="agggen:latest"),
    "limits of memory": lambda spec: spec["containers"][0]["resources"]["limits"].pop("memory"),
    "requests of cpu": lambda spec: spec["containers"][1]["resources"]["requests"].pop("cpu"),
    "port of its node": lambda spec: spec["containers"][0]["ports"][0].update(hostPort=6379),
    "every container gets a token": lambda spec: spec.pop("automountServiceAccountToken"),
    "has a token": lambda spec: spec["containers"][0]["volumeMounts"].append(spec["containers"][1]["volumeMounts"][-1]),
    "kind hostPath": lambda spec: spec["volumes"].append({"name": "docker", "hostPath": {"path": "/"}}),
    "fill the node's disk": lambda spec: spec["volumes"][0]["emptyDir"].clear(),
    "the secret other is not": lambda spec: spec["volumes"].append({"name": "a", "secret": {"secretName": "other"}}),
    "others may read": lambda spec: [one["secret"].pop("defaultMode") for one in spec["volumes"] if "secret" in one],
    "cannot write to /tmp": lambda spec: spec["containers"][0]["volumeMounts"].pop(0),
    "stands in the manifest": lambda spec: spec["containers"][0]["env"].append({"name": "MY_TOKEN", "value": "x"}),
    "KubeRay's to set": lambda spec: spec["containers"][0]["env"].append(
        {"name": "RAY_AUTH_MODE", "value": "disabled"}
    ),
    "which is not documented": lambda spec: spec["containers"][0]["env"][0]["valueFrom"]["secretKeyRef"].update(
        key="x"
    ),
    "whatever is in a secret": lambda spec: spec["containers"][0]["envFrom"].append(
        {"secretRef": {"name": "agggen-s3"}}
    ),
}


@pytest.mark.parametrize("fault", CHANGES)
def test_a_pod_that_breaks_a_rule_is_named(fault: str) -> None:
    assert broken(lambda spec: None) == []
    assert any(fault in each for each in broken(CHANGES[fault]))


@pytest.mark.parametrize("name", OVERLAYS)
def test_images_of_ours_are_of_this_version(name: str) -> None:
    version = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["version"]
    registry = {"dev": "", "gpu": "registry.example.com/"}[name]
    images = {container["image"] for pod in pods_of(overlay(name)) for container in pod.containers}
    ours = {f"{registry}agggen:{version}-cpu", f"{registry}agggen-mlflow:{version}"} | (
        {f"{registry}agggen:{version}-cuda"} if name == "gpu" else set()
    )
    assert {image for image in images if "agggen" in image} == ours


@pytest.mark.parametrize("name", OVERLAYS)
def test_ray_asks_for_its_token_everywhere(name: str) -> None:
    for each in ray_objects(overlay(name)):
        assert cluster_spec(each)["authOptions"] == {"mode": "token", "secretName": "agggen-ray-token"}, named(each)


@pytest.mark.parametrize("name", OVERLAYS)
def test_no_secret_is_in_a_manifest(name: str) -> None:
    objects = overlay(name)
    assert of_kind(objects, "Secret") == []
    for each in of_kind(objects, "ConfigMap"):
        assert [key for key in each["data"] if SECRET_LIKE.search(key)] == []
        assert not any("@" in value for value in each["data"].values()), "an address with a password"


def test_every_secret_is_documented_and_used() -> None:
    guide = (KUBERAY / "README.md").read_text(encoding="utf-8")
    rendered = "".join(yaml.safe_dump(overlay(name)) for name in OVERLAYS)
    for secret, keys in SECRETS.items():
        assert secret in rendered, f"nothing asks for {secret}"
        assert re.search(rf"create secret \w+ {secret}\b", guide), f"README.md does not say how to make {secret}"
        if secret != "agggen-tls":  # kubectl names the keys of a certificate
            assert all(f"{key}=" in guide for key in keys), f"README.md does not name the keys of {secret}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_whatever_a_pod_names_is_there(name: str) -> None:
    objects = overlay(name)
    there = {(each["kind"], each["metadata"]["name"]) for each in objects}
    for pod in pods_of(objects):
        wanted = {("PriorityClass", pod.spec["priorityClassName"])}
        if account := pod.spec.get("serviceAccountName"):
            wanted.add(("ServiceAccount", account))
        for volume in pod.spec.get("volumes", []):
            if claim := volume.get("persistentVolumeClaim"):
                wanted.add(("PersistentVolumeClaim", claim["claimName"]))
            if files := volume.get("configMap"):
                wanted.add(("ConfigMap", files["name"]))
        for container in pod.containers:
            wanted |= {("ConfigMap", each["configMapRef"]["name"]) for each in container.get("envFrom", [])}
            keys = [each.get("valueFrom", {}).get("configMapKeyRef") for each in container.get("env", [])]
            wanted |= {("ConfigMap", key["name"]) for key in keys if key}
        assert wanted <= there, f"{pod}: {wanted - there}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_lies_in_the_namespace_that_refuses_privileged_pods(name: str) -> None:
    objects = overlay(name)
    [namespace] = of_kind(objects, "Namespace")
    assert namespace["metadata"]["name"] == "agggen"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for each in objects:
        if each["kind"] not in WITHOUT_NAMESPACE:
            assert each["metadata"].get("namespace") == "agggen", named(each)


@pytest.mark.parametrize("name", OVERLAYS)
def test_nothing_is_open_to_the_outside_but_the_endpoint_with_tls(name: str) -> None:
    objects = overlay(name)
    for service in of_kind(objects, "Service"):
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP", named(service)
    for each in of_kind(objects, "Ingress"):
        hosts = {rule["host"] for rule in each["spec"]["rules"]}
        assert hosts == {host for tls in each["spec"]["tls"] for host in tls["hosts"]}
        assert all(tls["secretName"] in SECRETS for tls in each["spec"]["tls"])
        paths = [path for rule in each["spec"]["rules"] for path in rule["http"]["paths"]]
        assert {path["path"] for path in paths} == {"/v1", "/openapi.json"}, "health and metrics are for the inside"
        assert {path["backend"]["service"]["name"] for path in paths} == {"agggen-serve-svc"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_heads_do_no_work_and_workers_show_their_metrics(name: str) -> None:
    for each in ray_objects(overlay(name)):
        spec = cluster_spec(each)
        assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0", "metrics-export-port": "8080"}, named(each)
        for group in spec["workerGroupSpecs"]:
            assert group["rayStartParams"] == {"metrics-export-port": "8080"}, named(each)


def test_only_workers_are_on_spot_nodes() -> None:
    for pod in pods_of(overlay("gpu")):
        tolerated = {each.get("value") for each in pod.spec.get("tolerations", [])}
        nodes = pod.spec.get("nodeSelector", {}).get("agggen-nodes")
        if pod.part in ("cpu", "gpu"):
            assert nodes == f"spot-{pod.part}" and nodes in tolerated, str(pod)
        else:
            assert nodes not in SPOT and not tolerated & SPOT, str(pod)
        if pod.part == "head":
            assert nodes == "on-demand", str(pod)


def test_gpus_are_asked_for_by_the_gpu_group_alone() -> None:
    for pod in pods_of(overlay("gpu")):
        gpus = [each["resources"]["limits"].get("nvidia.com/gpu", 0) for each in pod.containers]
        assert sum(gpus) == (1 if pod.part == "gpu" else 0), str(pod)
        if pod.part == "gpu":
            assert pod.containers[0]["image"].endswith("-cuda"), str(pod)
    [cluster] = of_kind(overlay("gpu"), "RayCluster")
    groups = {each["groupName"]: each for each in cluster["spec"]["workerGroupSpecs"]}
    assert groups["gpu"]["minReplicas"] == 0 < groups["gpu"]["maxReplicas"]
    assert of_kind(overlay("dev"), "RayCluster")[0]["spec"]["workerGroupSpecs"][0]["groupName"] == "cpu"


@pytest.mark.parametrize("name", OVERLAYS)
def test_what_stands_all_the_time_keeps_its_state_outside_of_the_head(name: str) -> None:
    for each in ray_objects(overlay(name)):
        options = cluster_spec(each).get("gcsFaultToleranceOptions")
        if each["kind"] == "RayJob":  # its driver lives on the head: the job is started again, and goes on
            assert options is None, named(each)
            continue
        assert options["redisPassword"] == {"valueFrom": {"secretKeyRef": {"name": "agggen-redis", "key": "password"}}}
        assert options["redisAddress"].endswith(":6379")
