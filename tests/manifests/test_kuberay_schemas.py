"""Every object of every overlay fits its schema: Kubernetes' own, or ours of KubeRay's kinds."""

from __future__ import annotations

import copy
import functools
import json
import re
from typing import Any

import jsonschema
import pytest

from tests.manifests.kuberay_schemas import schema_of
from tests.manifests.rendering import (
    OVERLAYS,
    REPO,
    cluster_spec,
    named,
    of_kind,
    overlay,
    pods_of,
    ray_objects,
)

KUBERNETES = "1.32"


def check_kubernetes(each: dict[str, Any]) -> None:
    """Passes if the object is one of Kubernetes; unknown fields are errors."""
    if fault := _fault(json.dumps(each)):
        pytest.fail(f"{named(each)}: {fault}")


@functools.cache  # overlays have much in common
def _fault(text: str) -> str:
    reason = "kubernetes-validate is not installed: pip install -e '.[dev]'"
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=reason)
    try:
        kubernetes_validate.validate(json.loads(text), KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(str(part) for part in error.path)}: {error.message}"
    return ""


def as_object(template: dict[str, Any]) -> dict[str, Any]:
    """A pod's template as an object that has a schema of its own."""
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "any"}, "template": template}


@pytest.mark.parametrize("name", OVERLAYS)
def test_kubernetes_own_objects_fit_its_schemas(name: str) -> None:
    own = [each for each in overlay(name) if not each["apiVersion"].startswith("ray.io/")]
    assert len(own) > 20
    for each in own:
        check_kubernetes(each)


@pytest.mark.parametrize("name", OVERLAYS)
def test_objects_of_kuberay_fit_the_fields_of_its_api(name: str) -> None:
    found = ray_objects(overlay(name))
    assert sorted(each["kind"] for each in found) == ["RayCluster", *["RayJob"] * 4, "RayService"]
    for each in found:
        error = jsonschema.exceptions.best_match(
            jsonschema.Draft202012Validator(schema_of(each["kind"])).iter_errors(each)
        )
        assert error is None, f"{named(each)}: {error.json_path}: {error.message}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_templates_of_kuberays_pods_fit_kubernetes_schema(name: str) -> None:
    for pod in pods_of(ray_objects(overlay(name))):
        check_kubernetes(as_object(pod.template))


def test_a_misspelt_field_is_found_at_each_level() -> None:
    [service] = of_kind(overlay("gpu"), "RayService")
    validator = jsonschema.Draft202012Validator(schema_of("RayService"))
    wrong = copy.deepcopy(service)
    wrong["spec"]["rayClusterConfig"]["autoscalerOption"] = {}
    assert not validator.is_valid(wrong)
    head = copy.deepcopy(service["spec"]["rayClusterConfig"]["headGroupSpec"]["template"])
    head["spec"]["containers"][0]["securityContexts"] = {}
    with pytest.raises(pytest.fail.Exception, match="securityContexts"):
        check_kubernetes(as_object(head))


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_clusters_run_the_ray_that_is_installed_in_the_image(name: str) -> None:
    pinned = re.search(r"^ray==(\S+)$", (REPO / "constraints.txt").read_text(), re.M)
    assert pinned
    for each in ray_objects(overlay(name)):
        assert cluster_spec(each)["rayVersion"] == pinned[1], named(each)


@pytest.mark.parametrize("name", OVERLAYS)
def test_groups_of_workers_hold_together(name: str) -> None:
    for each in ray_objects(overlay(name)):
        spec = cluster_spec(each)
        for group in spec["workerGroupSpecs"]:
            least, wanted, most = (group[key] for key in ("minReplicas", "replicas", "maxReplicas"))
            assert least <= wanted <= most and most > 0, f"{named(each)} {group['groupName']}"
            grows = least < most
            assert not grows or spec["enableInTreeAutoscaling"], f"{named(each)}: nobody adds pods to {group}"
