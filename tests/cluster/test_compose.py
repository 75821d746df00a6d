"""Services of compose.yaml, started by the commands of infra/README.md: jobs, endpoint, access control, restart.

Needs Docker (tests/cluster/dockerd.sh starts one), but no image registry: compose/override.yaml replaces the images of
four servers by one image and our base image by one with this machine's pip settings, and leaves Grafana out.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agggen.corpora.prepared import write_records
from agggen.datasets import load_dataset
from tests.bulk_jobs import numbered_records, write_jsonl
from tests.cluster.containers import LONG, REPO, wait_for
from tests.cluster.image import BASE, pip_config
from tests.documents import blocks, commands_of
from tests.processes import until
from tests.unit.training.toy import write_preset

pytestmark = [pytest.mark.cluster, LONG]

FOLDER = Path(__file__).with_name("compose")
FILE = "infra/compose/compose.yaml"
STAND_INS, WITH_SETTINGS = "localhost/agggen-stand-ins", "localhost/agggen-test-base"  # the names in override.yaml
COPIED = ["LICENSE", "README.md", "constraints.txt", "pyproject.toml", ".dockerignore", "agggen", "platform", "serve"]
COPIED += ["jobs", "infra"]  # sources of the images, and files of the services
PORTS = {3000, 5000, 8000, 8265, 9000}
QUICK = ["training.baseline.epochs=1", "training.joint.epochs=1"]
# The image lacks pkill.
INTERRUPT_ENDPOINT = """for process in /proc/[0-9]*; do
  if tr '\\0' ' ' <$process/cmdline 2>/dev/null | grep -q 'bin/agggen [s]erve'; then kill -INT ${process#/proc/}; fi
done"""


def docker(*arguments: str, seconds: float = 120) -> str:
    """Runs docker, which must succeed; returns its output."""
    completed = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=seconds)
    assert completed.returncode == 0, f"docker {' '.join(arguments)}: {completed.stdout}{completed.stderr}"
    return completed.stdout


def reason_to_skip() -> str | None:
    """Why the Compose test cannot run on this machine; None if it can."""
    if os.geteuid():
        return "root is needed: only root can change the owner of files"
    for query in (["compose", "version"], ["buildx", "version"], ["version"]):
        try:
            completed = subprocess.run(["docker", *query], capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            return "docker is not installed"
        if completed.returncode:
            return f"docker {' '.join(query)}: {completed.stderr.strip()[-300:]} (tests/cluster/dockerd.sh starts one)"
    if shutil.which("debootstrap") is None and not docker("images", "--quiet", BASE):
        return "debootstrap is not installed"
    return None


def build() -> None:
    """Builds the base image, with this machine's pip settings, and the image that replaces four server images."""
    if not docker("images", "--quiet", BASE):
        subprocess.run(["infra/docker/base.sh", BASE], cwd=REPO, env=os.environ | {"PODMAN": "docker"}, check=True)
    with tempfile.TemporaryDirectory() as folder:
        write_settings(Path(folder))
        docker("build", f"--build-arg=BASE={BASE}", f"--tag={WITH_SETTINGS}", folder, seconds=600)
    with tempfile.TemporaryDirectory() as folder:
        for file in (FOLDER / "Dockerfile", FOLDER / "postgres.sh", REPO / "constraints.txt"):
            shutil.copy(file, folder)
        options = ["--network=host", f"--build-arg=BASE={WITH_SETTINGS}", f"--tag={STAND_INS}"]
        docker("build", *options, folder, seconds=1200)


def write_settings(folder: Path) -> None:
    """Writes a Dockerfile that adds pip's settings, certificate and local torch wheels (CPU builds) to the base."""
    lines = ["ARG BASE", "FROM ${BASE}", "COPY pip.conf /etc/pip.conf"]
    kept = {}
    (folder / "wheels").mkdir()
    for option, value in pip_config():
        if option in ("index-url", "default-timeout"):
            kept[option] = value
        elif option == "cert":
            kept[option] = value
            shutil.copyfile(value, folder / "cert.pem")
            lines.append(f"COPY cert.pem {value}")
        elif option == "find-links":
            for wheel_folder in value.replace("\\n", " ").split():
                for wheel in Path(wheel_folder).glob("torch-*+cpu-*.whl"):
                    shutil.copyfile(wheel, folder / "wheels" / wheel.name)
                    kept[option] = "/opt/wheels"
    lines.append("COPY wheels /opt/wheels")
    (folder / "pip.conf").write_text("[global]\n" + "".join(f"{key} = {kept[key]}\n" for key in sorted(kept)))
    (folder / "Dockerfile").write_text("\n".join(dict.fromkeys(lines)) + "\n")


def readme_commands() -> list[list[str]]:
    """The words of each command of the section in infra/README.md."""
    (block,) = (block for block in blocks(REPO / "infra" / "README.md") if "infra/compose/setup.py" in block.text)
    return list(commands_of(block.text))


class Stack:
    """The services, run from a copy of the repository that contains their state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "infra" / "compose" / "state"
        self.bucket = self.state / "s3" / "agggen-models"
        self.bundle = ""
        self._env = os.environ | {
            "COMPOSE_PROJECT_NAME": f"agggen-{folder.name}",
            "PYTHONPATH": f"{REPO}:{REPO}/platform",
        }
        if any(Path("/opt/wheels").glob("torch-*+cpu-*.whl")):
            self._env |= {"TORCH_CPU_INDEX": "file:///opt/wheels"}

    def adapted(self, words: list[str]) -> list[str]:
        """Adapts a README command to this test: no sudo, this Python, compose/override.yaml, no terminal."""
        words = words[1:] if words[0] == "sudo" else words
        if words[0] == "agggen":
            return [sys.executable, "-m", "agggen_platform.cli.main", *words[1:]]
        if words[0] == "python3":
            return [sys.executable, *words[1:]]
        assert words[:4] == ["docker", "compose", "-f", FILE], words
        action = [*words[4:5], *(["--no-TTY"] if words[4] == "exec" else []), *words[5:]]
        return [*words[:4], "-f", str(FOLDER / "override.yaml"), *action]

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(self.adapted(words), cwd=self.folder, env=self._env, text=True, **pipes)

    def run(self, words: list[str], seconds: float = 600) -> str:
        """Runs a README command, which must succeed; returns its output."""
        process = self.start(words)
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"{' '.join(words)} took {seconds} s: {process.communicate()[0]}") from None
        assert process.returncode == 0, f"{' '.join(words)}: {output}"
        return output

    def compose(self, *words: str, seconds: float = 600) -> str:
        return self.run(["docker", "compose", "-f", FILE, *words], seconds)

    def on_head(self, *words: str) -> str:
        return self.compose("exec", "ray-head", *words)

    def submit(self, script: str, *words: str) -> str:
        return self.on_head("ray", "job", "submit", "--", "python", f"/opt/agggen/jobs/{script}.py", *words)

    def secret(self, name: str) -> str:
        return (self.state / "secrets" / name).read_text()

    def request(self, port: int, path: str, body: object = None, **headers: str) -> httpx.Response:
        """The gate's response to a GET, or to a POST of `body` as JSON."""
        method, url = "POST" if body else "GET", f"http://127.0.0.1:{port}{path}"
        return httpx.request(method, url, json=body, headers=headers, timeout=60, trust_env=False)

    def status(self, port: int, path: str, body: object = None, **headers: str) -> int:
        return self.request(port, path, body, **headers).status_code

    def mlflow(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(f"http://{self.secret('mlflow_username')}:{self.secret('mlflow_password')}@127.0.0.1:5000")

    def runs(self) -> list[Any]:
        client = self.mlflow()
        return list(client.search_runs([client.get_experiment_by_name("agggen").experiment_id]))

    def champion(self) -> str:
        return str(self.mlflow().get_model_version_by_alias("agggen", "champion").version)

    def prometheus(self, path: str) -> Any:
        """A response of Prometheus, requested in its container, since its port is not published."""
        answer = self.compose("exec", "prometheus", "wget", "-q", "-O", "-", f"http://127.0.0.1:9090/api/v1/{path}")
        return json.loads(answer)["data"]

    def objects(self) -> dict[str, int]:
        """Sizes of the files below the S3 server's folder, by path."""
        root = self.state / "s3"
        return {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The services, started by the README's first commands."""
    if reason := reason_to_skip():
        pytest.skip(f"no Compose: {reason}")
    if ports_in_use := PORTS & {used.laddr.port for used in psutil.net_connections("tcp") if used.status == "LISTEN"}:
        pytest.skip(f"ports that compose.yaml publishes are in use: {sorted(ports_in_use)}")
    build()
    with tempfile.TemporaryDirectory(prefix="compose-", dir="/var/tmp") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        ignored = shutil.ignore_patterns("state", "__pycache__", "*.egg-info")
        for name in COPIED:
            if (REPO / name).is_dir():
                shutil.copytree(REPO / name, folder / name, ignore=ignored)
            else:
                shutil.copy(REPO / name, folder)
        stack = Stack(folder)
        setup, up, *_ = readme_commands()
        assert setup[-1] == "infra/compose/setup.py" and "up" in up, "the README begins with other commands"
        stack.run(setup)
        try:
            stack.run(up, 3000)
            yield stack
        finally:
            stack.compose("down", "--volumes", "--timeout", "20")


def test_services_are_healthy_and_only_the_gate_is_published_on_loopback(stack: Stack) -> None:
    services = [json.loads(line) for line in stack.compose("ps", "--format", "json").splitlines()]
    assert {service["Service"]: service["Health"] for service in services} == dict.fromkeys(
        ("gate", "mlflow", "postgres", "prometheus", "ray-head", "ray-worker", "s3"), "healthy"
    )
    published = [(service["Service"], port) for service in services for port in service["Publishers"] or ()]
    bound = [(name, port["URL"], port["PublishedPort"]) for name, port in published if port["PublishedPort"]]
    assert sorted(bound) == [("gate", "127.0.0.1", port) for port in sorted(PORTS)]
    listening = [used.laddr for used in psutil.net_connections("tcp") if used.status == "LISTEN"]
    assert {address.ip for address in listening if address.port in PORTS} == {"127.0.0.1"}
    for name in ("mlflow", "ray-head", "ray-worker"):  # only routes to their own networks
        routes = stack.compose("exec", name, "cat", "/proc/net/route").splitlines()[1:]
        assert routes and "00000000" not in {line.split()[1] for line in routes}
        probe = "id -u; touch /opt/x 2>&1 || true; grep CapEff /proc/self/status"
        user, *error, capabilities = stack.compose("exec", name, "sh", "-c", probe).splitlines()
        assert (user, capabilities.split()[-1]) == ("10001", "0" * 16) and "Read-only file system" in "".join(error)


def test_services_refuse_other_hosts_and_missing_credentials(stack: Stack) -> None:
    for port in PORTS:
        assert stack.status(port, "/", Host="elsewhere.example") == 403, port
    assert stack.status(8265, "/api/jobs/") == 401
    assert stack.status(8265, "/api/jobs/", Authorization="Bearer wrong") == 403
    assert stack.status(8265, "/api/jobs/", Authorization=f"Bearer {stack.secret('ray_token')}") == 200
    assert stack.status(5000, "/api/2.0/mlflow/experiments/search?max_results=1") == 401
    assert stack.mlflow().search_experiments()
    assert stack.status(9000, "/agggen-models") in (400, 403)
    assert stack.status(8000, "/readyz") == stack.status(3000, "/") == 503, "neither is running yet"


def test_a_submitted_job_trains_and_its_bundle_becomes_the_champion(stack: Stack) -> None:
    _, _, train, register, promote, *_ = readme_commands()
    assert train[-1].startswith("storage.url=") and register[-1] == "BUNDLE", "the README has other commands"
    stack.bundle = next(
        line for line in reversed(stack.run([*train, *QUICK], 1200).splitlines()) if line.startswith("s3://")
    )
    (run,) = stack.runs()
    assert run.info.status == "FINISHED" and run.data.metrics
    assert (stack.state / "s3" / stack.bundle.removeprefix("s3://") / "manifest.json").is_file()
    stack.run([*register[:-1], stack.bundle])
    stack.run(promote)
    assert stack.champion() == "1"


def test_jobs_read_the_folder_of_data_and_write_into_the_bucket(stack: Stack) -> None:
    records = list(numbered_records(8))
    write_jsonl(stack.state / "data" / "in.jsonl", records)
    stack.submit(
        "generate", "models:/agggen@champion", "/data/in.jsonl", "--out", "s3://agggen-models/texts", "format=jsonl"
    )
    (part,) = stack.bucket.glob("texts/texts/*.jsonl")
    assert [json.loads(line)["id"] for line in part.read_text().splitlines()] == [record.id for record in records]

    corpus = stack.state / "data" / "texts"
    corpus.mkdir()
    write_records(corpus / "train.parquet", load_dataset("elements").train[:50], "elements", "train")
    stack.submit("segment", "/data/texts", "--out", "s3://agggen-data/facts", "cache=off")
    assert (stack.state / "s3" / "agggen-data" / "facts" / "manifest.json").is_file()

    preset = write_preset(stack.state / "data")
    text = preset.read_text().replace(str(preset.parent), "/data").replace('uri: "nonsense://x", ', "")
    preset.write_text(text)
    space = {"space": {"model.predicate_dim": {"choice": [4, 8]}}, "trials": 2, "concurrent": 2, "asha": None}
    (stack.state / "data" / "space.yaml").write_text(json.dumps(space))
    options = ["--space", "/data/space.yaml", "--name", "search", "--no-register"]
    stack.submit("sweep", "/data/toy.yaml", *options, "storage.url=s3://agggen-models/runs")
    assert len(list(stack.bucket.glob("runs/search-t*/bundle/manifest.json"))) == 2


def test_prometheus_scrapes_each_node_and_has_the_rules(stack: Stack) -> None:
    def targets() -> list[str]:
        return [target["health"] for target in stack.prometheus("targets")["activeTargets"]]

    until(lambda: targets() == ["up", "up"], "two targets that are up")
    rules = [rule for group in stack.prometheus("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 20 and not [rule for rule in rules if rule.get("lastError")]
    until(lambda: stack.prometheus("query?query=ray_agggen_job_items_total")["result"], "metric of a job")


def test_the_endpoint_requires_a_key(stack: Stack) -> None:
    *_, make_key, serve = readme_commands()
    key = stack.run(make_key).split()[-1]
    endpoint = stack.start(serve)
    try:
        wait_for(endpoint, lambda: stack.status(8000, "/readyz") == 200, "ready endpoint", 300)
        body = {"records": [next(numbered_records(1)).as_dict()]}
        assert stack.status(8000, "/v1/generate", body) == 401
        for valid in (key, stack.secret("endpoint_key").strip()):
            answer = stack.request(8000, "/v1/generate", body, Authorization=f"Bearer {valid}")
            assert answer.json()["answers"][0]["texts"][0]["text"], answer.text
        assert stack.status(8000, "/v1/model", Host="elsewhere.example", Authorization=f"Bearer {key}") == 403
        stack.on_head("bash", "-c", INTERRUPT_ENDPOINT)
        assert endpoint.wait(120) == 130
    finally:
        endpoint.kill()


def test_a_restart_of_all_services_loses_nothing(stack: Stack) -> None:
    before = ({run.info.run_id for run in stack.runs()}, stack.champion(), stack.objects())
    stack.compose("down", "--volumes")
    stack.run(readme_commands()[1])
    assert ({run.info.run_id for run in stack.runs()}, stack.champion(), stack.objects()) == before
    stack.on_head("agggen", "models", "show", "agggen@champion")
