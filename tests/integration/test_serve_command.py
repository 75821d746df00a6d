"""`agggen serve` as a process: what it refuses, what listens, how it ends; and the files for `serve deploy`."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from agggen.bundle import fingerprint
from agggen_platform.ray_private import deploy_applications
from tests.command import Run, command
from tests.processes import Running, free_ports, until
from tests.serve_app import RECORDS
from tests.unit.serve.conftest import save_tiny_model

pytestmark = pytest.mark.slow

SERVE = ["-m", "agggen_platform.cli.main", "serve"]
SMALL = ["ingress.cpus=0.2", "planner.cpus=0.2", "generator.cpus=0.2"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("served") / "bundle")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return command(capsys)


# --- refused before anything is started -------------------------------------------------------------------------------


def test_a_host_that_others_reach_is_refused_without_keys(run: Run, bundle: Path, tmp_path: Path) -> None:
    code, _, err = run("serve", bundle, "http.host=0.0.0.0")
    assert (code, "security.keys_file" in err) == (2, True)
    code, _, err = run("serve", bundle, "http.host=0.0.0.0", f"security.keys_file={tmp_path / 'none'}")
    assert (code, "there is no keys file" in err) == (2, True)


def test_a_port_that_is_taken_is_refused(run: Run, bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = run("serve", bundle, f"http.port={taken.getsockname()[1]}")
    assert (code, "http.port 127.0.0.1:" in err) == (5, True)


def test_what_cannot_be_served_is_refused(run: Run, bundle: Path, tmp_path: Path) -> None:
    assert run("serve", tmp_path / "none")[0] == 3
    code, _, err = run("serve", bundle, "generator.cpus=4096")
    assert (code, "4097 CPUs" in err) == (6, True)
    assert run("serve", bundle, "--follow", "1")[0] == 2
    assert run("serve", bundle, "fingerprint=0123")[0] == 3


def test_a_cluster_that_is_not_there_is_said(bundle: Path, tmp_path: Path) -> None:
    with Running([*SERVE, str(bundle), "--address", "127.0.0.1:1"], tmp_path) as process:  # this one has a cluster
        assert process.finish() == 6, process.output()
        assert "no Ray cluster answers at 127.0.0.1:1" in process.output()


def test_a_gpu_where_none_is_is_refused_at_once(run: Run, bundle: Path, ray_cluster: None) -> None:
    code, _, err = run("serve", bundle, "generator.gpus=1", f"http.port={free_ports(1)[0]}")
    assert (code, "a replica of the generator needs 1 CPUs and 1 GPUs" in err) == (6, True)


# --- what listens -----------------------------------------------------------------------------------------------------

RAY = {
    "gcs_server": "the cluster's state",
    "raylet": "the node's workers and objects",
    "ray::DashboardAgent": "the node's jobs, logs and metrics",
    "ray::RuntimeEnvAgent": "the node's environments",
    "dashboard": "the dashboard's process, whose pages are off",
    "monitor": "metrics of the autoscaler",
    "python": "the command itself, a driver of Ray",
    "ray::": "a worker: calls by Ray, and by Serve between replicas",
}
"""What of Ray listens, on all interfaces and at ports of its own choice. Its token protects all but metrics."""


def _kind(process: psutil.Process) -> str:
    words = process.cmdline()
    line = " ".join(words)
    if line.startswith("ray::"):
        return "ray::DashboardAgent" if "DashboardAgent" in line else line.split()[0]
    for name in ("gcs_server", "raylet", "haproxy"):
        if Path(words[0]).name.startswith(name):
            return name
    return next((name for name in ("monitor", "dashboard") if f"/{name}" in line), "python")


def listening(pid: int, kind: str = "inet") -> set[tuple[str, str, int]]:
    """(process, host, port) of each listening socket of a process and its descendants; `kind` is psutil's."""
    found = set()
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        try:
            for one in process.net_connections(kind):
                if one.status == psutil.CONN_LISTEN or (one.type == socket.SOCK_DGRAM and one.laddr and not one.raddr):
                    found.add((_kind(process), one.laddr.ip, one.laddr.port))
        except psutil.Error:
            continue
    return found


def check_listening(pid: int, others: set[tuple[str, str, int]]) -> None:
    """Everything that listens is one of `others`, or of Ray at a port of its own choice; and all of `others` do."""
    found = listening(pid)
    assert others <= found
    for process, host, port in found - others:
        known = next((name for name in RAY if process.startswith(name)), None)
        assert known, f"{process} listens at {host}:{port}"
        assert port > 10000, f"{process} listens at {host}:{port}"


class Command(Running):
    """`agggen serve` in a process and a cluster of its own."""

    def __init__(self, bundle: Path, folder: Path, *settings: str) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        super().__init__([*SERVE, str(bundle), f"http.port={self.port}", *SMALL, *settings], folder)

    def wait_until_ready(self) -> None:
        self.wait_until(lambda: "Ready." in self.output(), "readiness")
        assert self.url in self.output().splitlines()


def _calls_without_a_token(pid: int) -> Iterator[str]:
    """What gRPC ports of replicas answer to a stranger."""
    import grpc
    from ray.serve.generated import serve_pb2, serve_pb2_grpc

    for process, _, port in listening(pid):
        if process.startswith("ray::ServeReplica"):
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                try:
                    serve_pb2_grpc.ASGIServiceStub(channel).HandleRequest(serve_pb2.ASGIRequest(), timeout=20)
                    yield "answered"
                except grpc.RpcError as error:
                    yield error.code().name


def test_it_listens_where_it_says_finishes_what_it_does_and_leaves_nothing(bundle: Path, tmp_path: Path) -> None:
    with Command(bundle, tmp_path) as served:
        served.wait_until_ready()
        agents = {
            ("ray::DashboardAgent", host, port) for _, host, port in listening(served.process.pid) if port == 52365
        }
        check_listening(served.process.pid, {("ray::ProxyActor", "127.0.0.1", served.port), *agents})
        assert set(_calls_without_a_token(served.process.pid)) <= {"UNAUTHENTICATED", "UNIMPLEMENTED"}

        begun, go_on, answers = threading.Event(), threading.Event(), []

        def slowly() -> Iterator[bytes]:
            for n in range(20):
                yield json.dumps({"id": str(n), "triples": [["Neon", "discoveredBy", f"value {n}"]]}).encode() + b"\n"
                begun.set()
                if n == 10:
                    go_on.wait(120)

        def ask() -> None:
            headers = {"Content-Type": "application/x-ndjson"}
            answers.append(
                httpx.post(f"{served.url}/v1/generate:stream", content=slowly(), headers=headers, timeout=120)
            )

        client = threading.Thread(target=ask)
        client.start()
        begun.wait(60)
        children = served.children()
        served.signal(signal.SIGINT)
        served.wait_until(lambda: "Finishing" in served.output(), "the end's beginning")
        until(lambda: _refused(served.url), "refusal of new requests", 60)
        go_on.set()
        client.join(120)
        assert served.finish(120) == 130, served.output()
        assert answers[0].text.splitlines()[-1] == '{"status": "end", "records": 20, "ok": 20, "errors": 0}'
        assert "Traceback" not in served.output()
        psutil.wait_procs(children, 60)
        assert not [child for child in children if child.is_running()]


def _refused(url: str) -> bool:
    try:
        return httpx.post(f"{url}/v1/generate", json={"records": RECORDS}, timeout=2).status_code == 503
    except httpx.TransportError:  # or it waits for a replica that takes requests: there is none any more
        return True


def test_haproxy_answers_and_what_listens_with_it(bundle: Path, tmp_path: Path) -> None:
    stats, metrics = free_ports(2)
    ports = {"RAY_SERVE_HAPROXY_STATS_PORT": str(stats), "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics)}
    with pytest.MonkeyPatch.context() as patch:
        for name, port in ports.items():
            patch.setenv(name, port)
        with Command(bundle, tmp_path, "http.proxy=haproxy") as served:
            served.wait_until_ready()
            answer = httpx.post(f"{served.url}/v1/generate", json={"records": RECORDS}, timeout=60)
            assert (answer.status_code, answer.json()["answers"][0]["model"]) == (200, fingerprint(bundle))
            found = listening(served.process.pid, "tcp")  # by UDP it only sends its log, to this machine
            assert ("haproxy", "127.0.0.1", served.port) in found
            open_to_all = {(host, port) for process, host, port in found if process == "haproxy"}
            assert open_to_all - {("127.0.0.1", served.port)} <= {
                (host, port) for host in ("0.0.0.0", "::") for port in (stats, metrics)
            }
            children = served.children()
            served.signal(signal.SIGTERM)
            assert served.finish(180) == 143, served.output()
            psutil.wait_procs(children, 60)
            assert not [child for child in children if child.is_running()]


# --- files for Serve's own commands -----------------------------------------------------------------------------------


def test_what_serve_build_and_print_config_write_can_be_deployed(
    run: Run, bundle: Path, tmp_path: Path, ray_cluster: None
) -> None:
    from ray import serve

    settings = {"bundle": str(bundle)} | {name: {"cpus": 0.2} for name in ("ingress", "planner", "generator")}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    environment = {"AGGGEN_SERVE": str(tmp_path / "config.yaml")}
    serve_command = [
        str(Path(sys.executable).with_name("serve")),
        "build",
        "serve.app:app",
        "-o",
        str(tmp_path / "b.yaml"),
    ]
    subprocess.run(serve_command, env=os.environ | environment, cwd=tmp_path, check=True, timeout=240)
    built = yaml.safe_load((tmp_path / "b.yaml").read_text())
    built["applications"][0]["runtime_env"] = {"env_vars": environment}
    code, printed, _ = run("serve", bundle, "--print-config", *SMALL)
    assert code == 0
    port = free_ports(1)[0]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        for file, name in ((built, "app1"), (yaml.safe_load(printed), "agggen")):
            deploy_applications(file["applications"])  # what `serve deploy` sends
            until(lambda name=name: _status(name) == "RUNNING", f"{name} ({serve.status().applications})")
            until(lambda: list(serve.status().applications) == [name], "the application alone")  # noqa: B023
            answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=60)
            assert (answer.status_code, answer.json()["model"]) == (200, fingerprint(bundle))
    finally:
        serve.shutdown()


def _status(name: str) -> str:
    from ray import serve

    found = serve.status().applications.get(name)
    assert found is None or found.status != "DEPLOY_FAILED", re.sub(r"\x1b\[[0-9;]*m", "", str(found))
    return "" if found is None else found.status.value
