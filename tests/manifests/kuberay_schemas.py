"""JSON Schemas of the fields of KubeRay's kinds that our manifests use, and no others.

Written out by hand of the API reference of KubeRay 1.6.2, which is generated from the same Go types as its CRDs
(ray-project/kuberay, docs/reference/api.md at 0a9eabde561ab59ab4bbe626072c359da9214484), with the rules of its
operator (ray-operator/controllers/ray/utils/validation.go) that a manifest can break. Pod templates are not described
here: they are Kubernetes' own PodTemplateSpec. `networkPolicy` and `tlsOptions` of KubeRay 1.7 are not used; both are
behind feature gates there.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEMPLATE: Schema = {"type": "object", "required": ["spec"]}
_NUMBER_OF_PODS: Schema = {"type": "integer", "minimum": 0}
_START_PARAMS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def _closed(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_AUTH = _closed({"mode": {"enum": ["token", "disabled"]}, "secretName": {"type": "string"}}, "mode")

_REDIS = _closed(
    {
        "redisAddress": {"type": "string", "minLength": 1},
        "redisPassword": _closed(
            {"valueFrom": _closed({"secretKeyRef": _closed({"name": {"type": "string"}, "key": {"type": "string"}})})}
        ),
    },
    "redisAddress",
)

_AUTOSCALER = _closed(
    {
        "version": {"enum": ["v1", "v2"]},
        "idleTimeoutSeconds": {"type": "integer", "minimum": 0},
        "upscalingMode": {"enum": ["Default", "Aggressive", "Conservative"]},
        "resources": {"type": "object"},
        "securityContext": {"type": "object"},
        "volumeMounts": {"type": "array"},
    }
)

_HEAD = _closed(
    {
        "serviceType": {"enum": ["ClusterIP"]},  # KubeRay takes others; ours are never reached from outside
        "rayStartParams": _START_PARAMS,
        "template": _TEMPLATE,
    },
    "template",
    "rayStartParams",
)

_WORKERS = _closed(
    {
        "groupName": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
        "replicas": _NUMBER_OF_PODS,
        "minReplicas": _NUMBER_OF_PODS,
        "maxReplicas": _NUMBER_OF_PODS,
        "idleTimeoutSeconds": {"type": "integer", "minimum": 0},
        "rayStartParams": _START_PARAMS,
        "template": _TEMPLATE,
    },
    *("groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"),
)

CLUSTER_SPEC = _closed(
    {
        "rayVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "authOptions": _AUTH,
        "gcsFaultToleranceOptions": _REDIS,
        "enableInTreeAutoscaling": {"type": "boolean"},
        "autoscalerOptions": _AUTOSCALER,
        "headGroupSpec": _HEAD,
        "workerGroupSpecs": {"type": "array", "items": _WORKERS, "minItems": 1},
    },
    "rayVersion",  # the operator refuses token authentication without it
    "headGroupSpec",
)

JOB_SPEC = _closed(
    {
        "suspend": {"type": "boolean"},
        "submissionMode": {"enum": ["K8sJobMode"]},  # the one whose submitter is a pod with a template of ours
        "entrypoint": {"type": "string", "minLength": 1},
        "shutdownAfterJobFinishes": {"const": True},  # a job may be suspended, and have a time to live, only with it
        "ttlSecondsAfterFinished": {"type": "integer", "minimum": 0},
        "backoffLimit": {"type": "integer", "minimum": 0},
        "activeDeadlineSeconds": {"type": "integer", "minimum": 1},
        "submitterConfig": _closed({"backoffLimit": {"type": "integer", "minimum": 0}}),
        "submitterPodTemplate": _TEMPLATE,
        "rayClusterSpec": CLUSTER_SPEC,
    },
    *("entrypoint", "submitterPodTemplate", "rayClusterSpec", "shutdownAfterJobFinishes"),
)

SERVICE_SPEC = _closed(
    {
        "serveConfigV2": {"type": "string"},
        "upgradeStrategy": _closed({"type": {"enum": ["NewCluster", "None"]}}, "type"),
        "rayClusterDeletionDelaySeconds": {"type": "integer", "minimum": 0},
        "excludeHeadPodFromServeSvc": {"type": "boolean"},
        "rayClusterConfig": CLUSTER_SPEC,
    },
    "serveConfigV2",
    "rayClusterConfig",
)

# The operator makes names of pods and services of these, and refuses longer ones.
_LONGEST_NAME = {"RayCluster": 53, "RayService": 47, "RayJob": 47}


def schema_of(kind: str) -> Schema:
    """The schema of a whole object of KubeRay's `kind`."""
    spec = {"RayCluster": CLUSTER_SPEC, "RayJob": JOB_SPEC, "RayService": SERVICE_SPEC}[kind]
    name = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": _LONGEST_NAME[kind]}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    metadata = _closed({"name": name, "namespace": {"const": "agggen"}, "labels": labels}, "name", "namespace")
    return _closed(
        {"apiVersion": {"const": "ray.io/v1"}, "kind": {"const": kind}, "metadata": metadata, "spec": spec},
        *("apiVersion", "kind", "metadata", "spec"),
    )
