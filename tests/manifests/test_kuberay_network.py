"""Which connections the network policies of the overlays let through, and that these are all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests.network import End, allowed, selected
from tests.manifests.rendering import OVERLAYS, Pod, of_kind, overlay, pods_of

WORLD = End(address="203.0.113.7")
METADATA_SERVICE = End(address="169.254.169.254")
DNS = End({"k8s-app": "kube-dns"}, "kube-system")
INGRESS = End(namespace="ingress-nginx")
MONITORING = End({"app.kubernetes.io/name": "prometheus"}, "monitoring")
OPERATOR = End({"app.kubernetes.io/component": "kuberay-operator"}, "kuberay-system")
ELSEWHERE = End({"agggen-role": "head", "agggen-workload": "agggen"}, "default")
MLFLOW, S3, REDIS, POSTGRES = (
    End({"app.kubernetes.io/name": f"agggen-{each}"}) for each in ("mlflow", "s3", "redis", "postgres")
)
MANAGED = End(address="10.0.3.4")
"""Where production has Redis and PostgreSQL."""
SERVE, METRICS, DASHBOARD, GCS, AGENT, MLFLOW_PORT, REDIS_PORT, SQL = 8000, 8080, 8265, 6379, 52365, 5000, 6379, 5432


def pod(workload: str, role: str) -> End:
    return End({"agggen-workload": workload, "agggen-role": role})


HEAD, WORKER = pod("agggen", "head"), pod("agggen", "worker")
TRAIN_HEAD, TRAIN_WORKER, SUBMITTER = (pod("agggen-train", role) for role in ("head", "worker", "submitter"))
CLUSTER_HEAD = pod("agggen-cluster", "head")

ALLOWED = [
    (INGRESS, WORKER, SERVE),
    (MONITORING, WORKER, METRICS),
    (MONITORING, TRAIN_HEAD, METRICS),
    (OPERATOR, HEAD, DASHBOARD),
    (OPERATOR, TRAIN_HEAD, DASHBOARD),
    (SUBMITTER, TRAIN_HEAD, DASHBOARD),
    (HEAD, WORKER, 41234),
    (WORKER, HEAD, GCS),
    (WORKER, HEAD, AGENT),
    (TRAIN_WORKER, TRAIN_HEAD, GCS),
    (WORKER, MLFLOW, MLFLOW_PORT),
    (MLFLOW, WORLD, 443),
    (TRAIN_HEAD, MLFLOW, MLFLOW_PORT),
    (WORKER, WORLD, 443),
    (TRAIN_HEAD, WORLD, 443),
    (HEAD, WORLD, 6443),  # where the Kubernetes API may be
]
DENIED = [
    (INGRESS, HEAD, SERVE),
    (INGRESS, WORKER, DASHBOARD),
    (INGRESS, HEAD, DASHBOARD),
    (INGRESS, TRAIN_WORKER, SERVE),
    (INGRESS, HEAD, GCS),
    (MONITORING, HEAD, DASHBOARD),
    (End({"app.kubernetes.io/name": "grafana"}, "monitoring"), WORKER, METRICS),
    (End(namespace="kuberay-system"), HEAD, DASHBOARD),
    (MONITORING, SUBMITTER, METRICS),
    (OPERATOR, HEAD, GCS),
    (OPERATOR, WORKER, AGENT),
    (ELSEWHERE, HEAD, DASHBOARD),
    (ELSEWHERE, WORKER, SERVE),
    (ELSEWHERE, HEAD, GCS),
    (WORLD, HEAD, DASHBOARD),
    (WORLD, WORKER, SERVE),
    (TRAIN_WORKER, HEAD, GCS),  # workloads do not reach each other
    (TRAIN_HEAD, WORKER, SERVE),
    (CLUSTER_HEAD, HEAD, DASHBOARD),
    (CLUSTER_HEAD, TRAIN_HEAD, GCS),
    (SUBMITTER, HEAD, DASHBOARD),
    (SUBMITTER, TRAIN_HEAD, GCS),
    (SUBMITTER, TRAIN_WORKER, METRICS),
    (SUBMITTER, WORLD, 443),
    (SUBMITTER, MLFLOW, MLFLOW_PORT),
    (WORKER, WORLD, 80),
    (WORKER, WORLD, 6443),
    (WORKER, METADATA_SERVICE, 80),
    (WORKER, METADATA_SERVICE, 443),
    (HEAD, METADATA_SERVICE, 443),
    (WORKER, MANAGED, REDIS_PORT),
    (WORKER, MANAGED, SQL),
    (HEAD, MANAGED, SQL),
    (HEAD, POSTGRES, SQL),
    (MLFLOW, MANAGED, REDIS_PORT),
    (MLFLOW, REDIS, REDIS_PORT),
    (MLFLOW, METADATA_SERVICE, 443),
    (INGRESS, S3, 9000),
    (SUBMITTER, S3, 9000),
    (POSTGRES, WORLD, 443),
    (S3, WORLD, 443),
    (WORKER, REDIS, REDIS_PORT),
    (MLFLOW, HEAD, DASHBOARD),
    (INGRESS, MLFLOW, MLFLOW_PORT),
    (REDIS, WORLD, 443),
]


def policies_of(name: str) -> list[dict[str, Any]]:
    return of_kind(overlay(name), "NetworkPolicy")


@pytest.mark.parametrize("name", OVERLAYS)
def test_what_is_needed_passes_and_nothing_else(name: str) -> None:
    policies = policies_of(name)
    needed = {
        "dev": [(HEAD, REDIS, REDIS_PORT), (MLFLOW, POSTGRES, SQL), (WORKER, S3, 9000), (MLFLOW, S3, 9000)],
        "gpu": [(HEAD, MANAGED, REDIS_PORT), (MLFLOW, MANAGED, SQL)],
    }[name]
    needed += ALLOWED
    for source, target, port in needed:
        assert allowed(policies, source, target, port), f"{source} cannot reach {target} on {port}"
    for source, target, port in DENIED:
        assert not allowed(policies, source, target, port), f"{source} reaches {target} on {port}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_all_pods_may_ask_for_names_and_nobody_else(name: str) -> None:
    policies = policies_of(name)
    for each in (HEAD, WORKER, SUBMITTER, MLFLOW):
        assert allowed(policies, each, DNS, 53, "UDP") and allowed(policies, each, DNS, 53)
        assert not allowed(policies, each, WORLD, 53, "UDP"), "names of others can carry data out"
    assert not allowed(policies, HEAD, DNS, 443)


@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_is_denied_unless_allowed(name: str) -> None:
    everything = [
        policy["metadata"]["name"]
        for policy in policies_of(name)
        if policy["spec"]["podSelector"] == {}
        and set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        and not policy["spec"].get("ingress")
        and not policy["spec"].get("egress")
    ]
    assert everything == ["default-deny"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_pod_that_listens_has_a_policy_of_its_own(name: str) -> None:
    own = [policy for policy in policies_of(name) if policy["spec"]["podSelector"]]
    for each in pods_of(overlay(name)):
        found = [policy for policy in own if selected(policy["spec"]["podSelector"], each.labels)]
        assert any("Ingress" in policy["spec"]["policyTypes"] for policy in found), str(each)


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_labels_that_policies_select_by_are_those_of_the_pods(name: str) -> None:
    roles = {"head": "head", "submitter": "submitter"}

    def expected(one: Pod) -> dict[str, str]:
        return {"agggen-workload": one.owner.split()[1], "agggen-role": roles.get(one.part, "worker")}

    pods = [each for each in pods_of(overlay(name)) if each.owner.startswith("Ray")]
    assert len(pods) > 10
    for each in pods:
        assert expected(each).items() <= each.labels.items(), str(each)


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_budget_of_disruption_selects_pods_that_exist(name: str) -> None:
    objects = overlay(name)
    budgets = of_kind(objects, "PodDisruptionBudget")
    assert {each["metadata"]["name"] for each in budgets} == {
        "agggen-endpoint",
        *(f"agggen-{job}" for job in ("segment", "train", "sweep", "generate")),
    }
    for budget in budgets:
        spec = budget["spec"]
        assert set(spec) == {"minAvailable", "selector"} and isinstance(spec["minAvailable"], int), (
            f"{budget['metadata']['name']}: the owners of these pods have no scale, for which only a number works"
        )
        assert any(selected(spec["selector"], each.labels) for each in pods_of(objects)), budget["metadata"]["name"]
