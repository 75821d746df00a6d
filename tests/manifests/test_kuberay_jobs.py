"""Commands and settings in the manifests are valid, and the requested resources fit the pods."""

import functools
import runpy
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from agggen.config import load_config
from agggen.corpora.catalogue import list_corpora
from agggen_platform.serving.capacity import check_fits, maximum_resources, minimum_resources
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.deploy import APPLICATION
from agggen_platform.serving.target import settings_of
from tests.documents import agggen_arguments, find_subcommand, loaded_config
from tests.manifests.rendering import OVERLAYS, REPO, Object, cluster_spec, of_kind, overlay

HOME = "/var/lib/agggen"
JOBS = [(name, job) for name in OVERLAYS for job in ("segment", "train", "sweep", "generate")]
SHELL = set("&|;<>$`\\\"'*?()#~!\n")

both_overlays = pytest.mark.parametrize("name", OVERLAYS)
every_job = pytest.mark.parametrize(("name", "job"), JOBS)


def spec_of(name: str, kind: str, item: str) -> Object:
    [spec] = [resource["spec"] for resource in of_kind(overlay(name), kind) if resource["metadata"]["name"] == item]
    return spec


def job_of(name: str, job: str) -> Object:
    return spec_of(name, "RayJob", f"agggen-{job}")


def head_of(name: str, job: str) -> Object:
    return job_of(name, job)["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The called `agggen` command and its parsed parameters; fails on unknown options and missing arguments."""
    name, parser, arguments = find_subcommand(agggen_arguments(words) or [])
    return name, dict(parser.make_context(name, arguments).params)


@functools.cache
def entrypoint(name: str, job: str) -> tuple[dict[str, Any], Any]:
    words = shlex.split(job_of(name, job)["entrypoint"])
    assert words[:2] == ["python", f"/opt/agggen/jobs/{job}.py"]
    command, params = parsed(words)
    return params, loaded_config(command, params)


# --- jobs ----------------------------------------------------------------------------------------------------------


@every_job
def test_an_entrypoint_is_a_command_with_valid_options(name: str, job: str) -> None:
    assert not set(job_of(name, job)["entrypoint"]) & SHELL, "a shell gets it unquoted"
    params, _ = entrypoint(name, job)
    assert str(params["runs"]).startswith(f"{HOME}/job/"), "runs must outlive the head"
    head = head_of(name, job)
    mounts = {mount["mountPath"]: mount["name"] for mount in head["containers"][0]["volumeMounts"]}
    [volume] = [volume for volume in head["volumes"] if volume["name"] == mounts[f"{HOME}/job"]]
    assert volume["persistentVolumeClaim"] == {"claimName": f"agggen-{job}"}


@every_job
def test_the_resources_of_a_job_fit_its_workers(name: str, job: str) -> None:
    (params, config), cluster = entrypoint(name, job), job_of(name, job)["rayClusterSpec"]
    cpus = gpus = at_start = 0.0
    for group in cluster["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        at_start += group["minReplicas"] * float(limits["cpu"])
        cpus += group["maxReplicas"] * float(limits["cpu"])
        gpus += group["maxReplicas"] * float(limits.get("nvidia.com/gpu", 0))
    if job in ("train", "sweep"):
        assert config.cluster.address == "auto"
        assert config.cluster.autoscaling == cluster["enableInTreeAutoscaling"]
        workers = config.cluster.workers or params["concurrent"]
        assert workers * config.cluster.cpus_per_worker <= cpus
        assert workers * config.cluster.gpus_per_worker <= gpus
        assert bool(config.cluster.gpus_per_worker) == bool(gpus), "unused or missing GPUs"
        assert config.storage.url.startswith("s3://agggen-models/")
    else:
        assert cluster["enableInTreeAutoscaling"] or params["actors"] <= at_start, "too few initial CPUs for all actors"
        assert params["actors"] <= cpus and params["out"].startswith("s3://agggen-data/")
    if job == "generate":
        assert config.gpus_per_actor * params["actors"] <= gpus


@every_job
def test_an_init_container_downloads_the_corpus_of_a_training(name: str, job: str) -> None:
    shipped = {corpus.name for corpus in list_corpora() if corpus.folder is None}
    commands = [container["command"] for container in head_of(name, job).get("initContainers", [])]
    corpora = [parsed(command)[1]["name"] for command in commands]
    needed = {entrypoint(name, job)[1].corpus.name} - shipped if job in ("train", "sweep") else set()
    assert corpora == list(needed)


# --- the endpoint --------------------------------------------------------------------------------------------------


def application_of(name: str) -> Any:
    """The application of serveConfigV2, parsed by Ray Serve, and its HTTP options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # in Ray's own code
        from ray.serve.schema import ServeDeploySchema
    schema = ServeDeploySchema.model_validate(yaml.safe_load(spec_of(name, "RayService", "agggen")["serveConfigV2"]))
    [application] = schema.applications
    return application, schema.http_options


@functools.cache
def endpoint_config(name: str) -> Any:
    return load_config(ServeConfig, None, settings_of(application_of(name)[0].args))


@both_overlays
def test_the_settings_of_serve_and_of_the_endpoint_agree(name: str) -> None:
    (application, http), config = application_of(name), endpoint_config(name)
    assert (http.host, http.port) == (config.http.host, config.http.port)
    assert application.name == APPLICATION and application.route_prefix == "/"
    assert config.bundle == "models:/agggen@champion" and config.security.keys_file is not None
    spec = spec_of(name, "RayService", "agggen")
    assert spec["rayClusterDeletionDelaySeconds"] > config.limits.longest_deadline_s, "deletes active requests"
    assert spec["upgradeStrategy"] == {"type": "NewCluster"} and spec["excludeHeadPodFromServeSvc"] is True


@both_overlays
def test_the_endpoint_fits_its_nodes(name: str) -> None:
    config, most_gpus, nodes = endpoint_config(name), 0.0, []
    for group in spec_of(name, "RayService", "agggen")["rayClusterConfig"]["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        gpus = float(limits.get("nvidia.com/gpu", 0))
        nodes += [{"CPU": float(limits["cpu"]), "GPU": gpus}] * group["minReplicas"]
        most_gpus += gpus * group["maxReplicas"]
    check_fits(config, nodes)  # otherwise KubeRay would wait forever
    assert maximum_resources(config).gpus <= most_gpus
    if config.update == "beside":
        assert 2 * minimum_resources(config).gpus <= most_gpus, (
            "a rolling update starts new replicas before it stops old ones"
        )


@both_overlays
def test_every_node_of_the_endpoint_mounts_its_keys(name: str) -> None:
    keys_file = Path(endpoint_config(name).security.keys_file)
    cluster = cluster_spec({"kind": "RayService", "spec": spec_of(name, "RayService", "agggen")})
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        spec = group["template"]["spec"]
        [mount] = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "api-keys"]
        [volume] = [volume for volume in spec["volumes"] if volume["name"] == "api-keys"]
        assert mount["mountPath"] == str(keys_file.parent) and mount["readOnly"] is True
        assert volume["secret"]["secretName"] == "agggen-api-keys"
        assert spec["priorityClassName"] == "agggen-serving"


# --- MLflow --------------------------------------------------------------------------------------------------------


@both_overlays
def test_mlflow_starts_with_the_settings_of_its_manifest(name: str, tmp_path: Path) -> None:
    start = runpy.run_path(str(REPO / "infra" / "mlflow" / "start.py"))
    spec = spec_of(name, "Deployment", "agggen-mlflow")["template"]["spec"]
    [container] = spec["containers"]
    [secret] = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    assert start["SECRETS"] in {mount["mountPath"] for mount in container["volumeMounts"]}
    for item in secret["items"]:
        (tmp_path / item["path"]).write_text("long-enough-secret\n")
    env = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    private = tmp_path / "private"
    private.mkdir()
    command, environment = start["prepare"](container["args"], env | {"AGGGEN_MLFLOW_SECRETS": str(tmp_path)}, private)
    assert "basic-auth" in command and environment["PGPASSFILE"]
    host = container["readinessProbe"]["httpGet"]["httpHeaders"][0]["value"]
    assert host in container["args"][container["args"].index("--allowed-hosts") + 1].split(",")
