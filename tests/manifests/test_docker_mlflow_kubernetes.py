"""MLflow's manifests, rendered with kustomize: they fit Kubernetes' schemas, our rules, and what start.py reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.manifests.network import End, allowed
from tests.manifests.rendering import KUBERAY, REPO, of_kind, rendered
from tests.manifests.test_docker_mlflow import SECRETS

FOLDER = REPO / "infra" / "mlflow" / "kubernetes"
LABELS = {"app.kubernetes.io/name": "agggen-mlflow"}


@pytest.fixture
def pod() -> dict[str, Any]:
    (deployment,) = of_kind(rendered(FOLDER), "Deployment")
    return deployment["spec"]["template"]


def test_every_object_fits_its_schema() -> None:
    reason = "kubernetes-validate is not installed: pip install -e '.[dev]'"
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=reason)
    objects = rendered(FOLDER)
    kinds = {"ServiceAccount", "Service", "Deployment", "ConfigMap", "NetworkPolicy"}
    assert {each["kind"] for each in objects} == kinds
    for each in objects:
        kubernetes_validate.validate(each, "1.32", strict=True)
        assert each["metadata"]["namespace"] == "agggen"


def test_it_runs_as_the_images_user_and_may_do_nothing_else(pod: dict[str, Any]) -> None:
    security = pod["spec"]["securityContext"]
    assert security["runAsNonRoot"] and (security["runAsUser"], security["runAsGroup"]) == (10001, 10001)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["spec"]["automountServiceAccountToken"] is False
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    assert re.fullmatch(r"agggen-mlflow:\d+\.\d+\.\d+", container["image"])
    assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/tmp", "/var/lib/agggen"}
    for volume in pod["spec"]["volumes"]:
        assert "projected" in volume or volume["emptyDir"]["sizeLimit"]


def test_the_start_script_finds_its_secrets_and_settings(pod: dict[str, Any]) -> None:
    (container,) = pod["spec"]["containers"]
    (volume,) = (each["projected"] for each in pod["spec"]["volumes"] if "projected" in each)
    paths = [item["path"] for source in volume["sources"] for item in source["secret"]["items"]]
    assert sorted(paths) == sorted(SECRETS)
    assert volume["defaultMode"] == 0o440
    assert {"name": "secrets", "mountPath": "/run/secrets/mlflow", "readOnly": True} in container["volumeMounts"]
    (settings,) = of_kind(rendered(FOLDER), "ConfigMap")
    assert {"MLFLOW_BACKEND_STORE_URI", "MLFLOW_ARTIFACTS_DESTINATION"} <= set(settings["data"])
    assert "//mlflow@" in settings["data"]["MLFLOW_BACKEND_STORE_URI"], "a password, or no user"
    (hosts,) = (each for each in container["args"] if each.startswith("--allowed-hosts="))
    assert "agggen-mlflow:5000" in hosts and "*" not in hosts


def test_secrets_are_those_that_are_documented() -> None:
    keys = dict.fromkeys(("agggen-mlflow", "agggen-s3", "agggen-mlflow-server"))
    text = (FOLDER / "kustomization.yaml").read_text() + (KUBERAY / "README.md").read_text()
    for name in keys:
        assert f"create secret generic {name} " in text


def test_the_service_leads_to_the_server(pod: dict[str, Any]) -> None:
    (service,) = of_kind(rendered(FOLDER), "Service")
    assert service["metadata"]["name"] == "agggen-mlflow"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert [port["port"] for port in service["spec"]["ports"]] == [5000]


def test_policies_let_it_reach_database_and_store_alone() -> None:
    policies = of_kind([*rendered(FOLDER), *rendered(KUBERAY / "overlays" / "dev")], "NetworkPolicy")
    server, store = End(LABELS), End({"app.kubernetes.io/name": "agggen-s3"})
    head, stranger = End({"agggen-role": "head"}), End({"app": "any"})
    database, metadata = End(address="10.1.2.3"), End(address="169.254.169.254")
    assert allowed(policies, server, store, 9000)
    assert allowed(policies, head, server, 5000)
    assert not allowed(policies, server, head, 8265)
    assert not allowed(policies, stranger, server, 5000)
    assert not allowed(policies, stranger, store, 9000)
    assert not allowed(policies, server, store, 22)
    assert allowed(policies, server, database, 5432) and allowed(policies, server, database, 443)
    assert not allowed(policies, stranger, database, 5432)
    assert not allowed(policies, server, metadata, 443)
