"""The commands and settings in the manifests are those of this code: a renamed option breaks these tests, not a job.

Entrypoints are read by the command line itself and their settings by the configuration, nothing is run. Serve's file is
read by Ray Serve and by the endpoint's configuration.
"""

from __future__ import annotations

import ast
import functools
import importlib
import shlex
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from agggen_platform.cli.main import app
from agggen_platform.config import load_config
from agggen_platform.job_config import JobConfig
from tests.manifests.rendering import OVERLAYS, REPO, cluster_spec, named, of_kind, overlay

IN_THE_IMAGE = "/opt/agggen/jobs/"
HOME = "/var/lib/agggen"
COMMANDS = {"segment": "segment", "train": "train", "sweep": "sweep", "generate": "bulk"}
JOBS = [(name, job) for name in OVERLAYS for job in COMMANDS]
SHELL = set("&|;<>$`\\\"'*?()#~!\n")


def job_of(name: str, job: str) -> dict[str, Any]:
    [found] = [each for each in of_kind(overlay(name), "RayJob") if each["metadata"]["name"] == f"agggen-{job}"]
    return found["spec"]


def command_of(script: Path) -> str:
    """The subcommand that a script in jobs/ gives its arguments to."""
    calls = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Call)]
    [main] = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "main"]
    assert isinstance(main.args[0], ast.List) and isinstance(main.args[0].elts[0], ast.Constant)
    return str(main.args[0].elts[0].value)


def parsed(arguments: list[str]) -> dict[str, Any]:
    """The parameters of a command, as it would be called with them.

    Raises:
        click.UsageError: an unknown option, or an argument too few.
    """
    group = typer.main.get_command(app)
    command = group.get_command(typer.Context(group), arguments[0])  # type: ignore[attr-defined]
    assert command is not None
    return dict(command.make_context(arguments[0], list(arguments[1:])).params)


@functools.cache
def entrypoint(name: str, job: str) -> dict[str, Any]:
    """The parameters of a job's entrypoint."""
    words = shlex.split(job_of(name, job)["entrypoint"])
    python, script, *arguments = words
    assert python == "python" and script == f"{IN_THE_IMAGE}{job}.py"
    source = REPO / "jobs" / f"{job}.py"
    assert source.is_file() and command_of(source) == COMMANDS[job]
    return parsed([COMMANDS[job], *arguments])


@functools.cache
def configured(name: str, job: str) -> Any:
    """What the job's settings say."""
    params = entrypoint(name, job)
    settings = list(params["overrides"] or ())
    if job in ("train", "sweep"):
        return load_config(JobConfig, params["preset"], settings)
    if job == "segment":
        from agggen_platform.segmentation.config import SegmentConfig

        return load_config(SegmentConfig, None, [*settings, f"actors={params['actors']}"])
    from agggen.generation.config import InferenceConfig
    from agggen_platform.bulk.config import BulkConfig
    from agggen_platform.config import overrides_of

    own = [f"inference.{each}" for each in overrides_of(InferenceConfig())]  # a bundle would say
    return load_config(BulkConfig, None, [*settings, f"actors={params['actors']}"], defaults=own)


def room(name: str, job: str) -> dict[str, float]:
    """CPUs and GPUs of the job's workers when all are there."""
    total = {"cpu": 0.0, "gpu": 0.0}
    for group in cluster_spec({"kind": "RayJob", "spec": job_of(name, job)})["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        total["cpu"] += group["maxReplicas"] * float(limits["cpu"])
        total["gpu"] += group["maxReplicas"] * float(limits.get("nvidia.com/gpu", 0))
    return total


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_an_entrypoint_is_a_command_of_ours_with_options_that_exist(name: str, job: str) -> None:
    assert not set(job_of(name, job)["entrypoint"]) & SHELL, "KubeRay's submitter hands it to a shell unquoted"
    params = entrypoint(name, job)
    configured(name, job)
    assert str(params["runs"]).startswith(f"{HOME}/job/"), "the run log, and a sweep's study, outlive the head"
    head = cluster_spec({"kind": "RayJob", "spec": job_of(name, job)})["headGroupSpec"]["template"]["spec"]
    mounts = {each["mountPath"]: each["name"] for each in head["containers"][0]["volumeMounts"]}
    claims = {each["name"]: each.get("persistentVolumeClaim") for each in head["volumes"]}
    assert claims[mounts[f"{HOME}/job"]] == {"claimName": f"agggen-{job}"}


def test_an_option_that_does_not_exist_is_found() -> None:
    with pytest.raises(typer.BadParameter.__mro__[1], match="--concurrency"):
        parsed(["sweep", "webnlg", "--concurrency", "4"])
    with pytest.raises(Exception, match=r"cluster\.worker'"):
        load_config(JobConfig, "webnlg", ["cluster.worker=4"])


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_a_job_ends_gives_its_nodes_back_and_goes_on_after_a_failure(name: str, job: str) -> None:
    spec = job_of(name, job)
    assert spec["suspend"] is True, "applying all manifests must not start work"
    assert spec["submissionMode"] == "K8sJobMode"
    assert spec["shutdownAfterJobFinishes"] is True and 0 < spec["ttlSecondsAfterFinished"] <= 3600
    assert 1 <= spec["backoffLimit"] <= 10 and spec["submitterConfig"]["backoffLimit"] >= 1
    assert 0 < spec["activeDeadlineSeconds"] <= 7 * 86400
    assert "--fresh" not in spec["entrypoint"], "a retry would begin anew"


@pytest.mark.parametrize(("name", "job"), JOBS)
def test_what_a_job_asks_for_fits_its_workers(name: str, job: str) -> None:
    config, have = configured(name, job), room(name, job)
    params, grows = entrypoint(name, job), cluster_spec({"kind": "RayJob", "spec": job_of(name, job)})
    if job in ("train", "sweep"):
        assert config.cluster.address == "auto"
        assert config.cluster.autoscaling == grows["enableInTreeAutoscaling"]
        at_once = config.cluster.workers or params["concurrent"]
        assert at_once * config.cluster.gpus_per_worker <= have["gpu"]
        assert at_once * config.cluster.cpus_per_worker <= have["cpu"]
        assert bool(config.cluster.gpus_per_worker) == bool(have["gpu"]), "GPUs that nobody asks for, or the reverse"
        assert config.storage.url.startswith("s3://agggen-models/"), "workers of all nodes see it"
    else:
        assert not grows["enableInTreeAutoscaling"], "actors are counted on the nodes that are there at the start"
        assert params["actors"] <= have["cpu"]
        assert params["out"].startswith("s3://agggen-data/")
    if job == "generate":
        assert config.gpus_per_actor * params["actors"] <= have["gpu"]


def test_the_corpus_that_training_reads_is_fetched_before() -> None:
    from agggen.corpora.catalogue import list_corpora

    shipped = {each.name for each in list_corpora() if each.folder is None}
    for name, job in JOBS:
        if job not in ("train", "sweep"):
            continue
        head = cluster_spec({"kind": "RayJob", "spec": job_of(name, job)})["headGroupSpec"]["template"]["spec"]
        fetched = [each["command"] for each in head.get("initContainers", [])]
        corpus = configured(name, job).corpus.name
        assert fetched == ([] if corpus in shipped else [["agggen", "corpora", "fetch", corpus]]), f"{name} {job}"
        for command in fetched:
            assert parsed_group(command[1:])["name"] == corpus


def parsed_group(arguments: list[str]) -> dict[str, Any]:
    """As `parsed`, for a command of a group (``corpora fetch``)."""
    group = typer.main.get_command(app)
    inner = group.get_command(typer.Context(group), arguments[0])  # type: ignore[attr-defined]
    command = inner.get_command(typer.Context(inner), arguments[1])
    return dict(command.make_context(arguments[1], list(arguments[2:])).params)


# --- the endpoint -------------------------------------------------------------------------------------------------


def service_of(name: str) -> dict[str, Any]:
    [service] = of_kind(overlay(name), "RayService")
    return service["spec"]


def serve_schema(name: str) -> Any:
    """serveConfigV2 as Ray Serve reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pydantic, in Ray's own code
        from ray.serve.schema import ServeDeploySchema
    return ServeDeploySchema.model_validate(yaml.safe_load(service_of(name)["serveConfigV2"]))


@functools.cache
def endpoint_config(name: str) -> Any:
    """What the endpoint is told."""
    from agggen_platform.serving.config import ServeConfig
    from agggen_platform.serving.target import settings_of

    return load_config(ServeConfig, None, settings_of(serve_schema(name).applications[0].args))


@pytest.mark.parametrize("name", OVERLAYS)
def test_serve_reads_its_file_and_the_endpoint_its_arguments(name: str) -> None:
    schema, config = serve_schema(name), endpoint_config(name)
    [application] = schema.applications
    assert (schema.http_options.host, schema.http_options.port) == (config.http.host, config.http.port)
    assert application.name == config.name and application.route_prefix == "/"
    assert config.bundle == "models:/agggen@champion" and config.security.keys_file is not None
    delay = service_of(name)["rayClusterDeletionDelaySeconds"]
    assert delay > config.limits.longest_deadline_s, "the old cluster finishes its requests"


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_endpoints_import_path_builds_the_application(name: str, tmp_path: Path) -> None:
    from tests.unit.serve.conftest import save_tiny_model

    keys = tmp_path / "keys"
    keys.write_text(f"test sha256:{'0' * 64}\n")
    keys.chmod(0o440)
    [application] = serve_schema(name).applications
    module, _, attribute = application.import_path.partition(":")
    build = getattr(importlib.import_module(module), attribute)
    here = {"bundle": str(save_tiny_model(tmp_path / "bundle")), "security": {"keys_file": str(keys)}}
    built = build(application.args | here)
    assert built._bound_deployment.name == "Ingress"


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_endpoint_fits_the_nodes_that_stand(name: str) -> None:
    from agggen_platform.serving.capacity import check_fits, least, most

    config, most_gpus, nodes = endpoint_config(name), 0.0, []
    for group in service_of(name)["rayClusterConfig"]["workerGroupSpecs"]:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        gpus = float(limits.get("nvidia.com/gpu", 0))
        nodes += [{"CPU": float(limits["cpu"]), "GPU": gpus}] * group["minReplicas"]
        most_gpus += gpus * group["maxReplicas"]
    check_fits(config, nodes)  # else KubeRay would wait for replicas that never start
    assert most(config).gpus <= most_gpus
    if config.update == "beside":
        assert 2 * least(config).gpus <= most_gpus, "a roll-out starts new replicas before it stops the old ones"


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_node_of_the_endpoint_has_its_keys_where_it_looks_for_them(name: str) -> None:
    [application] = yaml.safe_load(service_of(name)["serveConfigV2"])["applications"]
    keys = Path(application["args"]["security"]["keys_file"])
    cluster = service_of(name)["rayClusterConfig"]
    for template in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        spec = template["template"]["spec"]
        [mount] = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "api-keys"]
        [volume] = [each for each in spec["volumes"] if each["name"] == "api-keys"]
        assert mount["mountPath"] == str(keys.parent) and mount["readOnly"] is True
        assert volume["secret"] == {"secretName": "agggen-api-keys", "defaultMode": 0o440}, "its group may not write it"
        assert spec["priorityClassName"] == "agggen-serving"


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_upgrade_of_the_endpoint_brings_up_a_second_cluster(name: str) -> None:
    spec = service_of(name)
    assert spec["upgradeStrategy"] == {"type": "NewCluster"}
    assert spec["excludeHeadPodFromServeSvc"] is True, (
        f"{named(of_kind(overlay(name), 'RayService')[0])}: no work there"
    )
    assert "externalStorageNamespace" not in spec["rayClusterConfig"]["gcsFaultToleranceOptions"], (
        "both clusters would have one state"
    )


@pytest.mark.parametrize("name", OVERLAYS)
def test_settings_are_variables_that_somebody_reads(name: str) -> None:
    [settings] = [
        each for each in of_kind(overlay(name), "ConfigMap") if each["metadata"]["name"].startswith("agggen-settings-")
    ]
    documented = (REPO / "README.md").read_text(encoding="utf-8")
    for key in settings["data"]:  # RAY_... and the checksums are Ray's and boto3's
        assert key in documented or key.startswith("RAY_") or "_CHECKSUM_" in key, f"{key} is not in README.md"
