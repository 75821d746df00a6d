"""`agggen serve`: refused settings, listening sockets and shutdown of the process, configuration for `serve deploy`."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from agggen.bundle import fingerprint
from tests.command import Run
from tests.processes import Running, free_ports, until
from tests.serve_app import RECORDS, SMALL

pytestmark = pytest.mark.slow

SERVE = ["-m", "agggen_platform.cli.main", "serve"]


# --- refused settings -------------------------------------------------------------------------------


def test_settings_that_cannot_be_served_are_refused(run: Run, bundle: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for settings, expected, message in (
            (["http.host=0.0.0.0"], 2, "security.keys_file"),
            (["http.host=0.0.0.0", f"security.keys_file={tmp_path / 'none'}"], 2, "no keys file"),
            ([f"http.port={taken.getsockname()[1]}"], 5, "cannot listen at 127.0.0.1:"),
            (["generator.cpus=4096"], 6, "4097 CPUs"),
            (["--follow", "1"], 2, "needs a registry alias"),
            (["fingerprint=0123"], 3, "is not the expected bundle"),
        ):
            code, _, err = run("serve", bundle, *settings)
            assert (code, message in err) == (expected, True), err
    assert run("serve", tmp_path / "none")[0] == 3


# --- listening sockets ------------------------------------------------------------------------------------------------


def listening(pid: int) -> set[tuple[str, str, int]]:
    """(command line, host, port) of each listening socket of a process and its descendants."""
    sockets = set()
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.Error):
            for connection in process.net_connections("inet"):
                is_datagram_server = connection.type == socket.SOCK_DGRAM and connection.laddr and not connection.raddr
                if connection.status == psutil.CONN_LISTEN or is_datagram_server:
                    sockets.add((" ".join(process.cmdline()), connection.laddr.ip, connection.laddr.port))
    return sockets


def _calls_without_a_token(sockets: set[tuple[str, str, int]]) -> Iterator[str]:
    """The outcome of a gRPC call without Ray's token on each port of a replica."""
    import grpc
    from ray.serve.generated import serve_pb2, serve_pb2_grpc

    for command, _, port in sockets:
        if command.startswith("ray::ServeReplica"):
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                try:
                    serve_pb2_grpc.ASGIServiceStub(channel).HandleRequest(serve_pb2.ASGIRequest(), timeout=20)
                    yield "answered"
                except grpc.RpcError as error:
                    yield error.code().name


def test_serve_opens_only_documented_ports_finishes_active_requests_and_leaves_no_process(
    bundle: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with ThreadPoolExecutor(1) as pool, Running([*SERVE, str(bundle), f"http.port={port}", *SMALL], tmp_path) as served:
        served.wait_until(lambda: "Ready." in served.output(), "readiness")
        assert url in served.output().splitlines()
        sockets = listening(served.process.pid)
        own = [(command.split()[0], host) for command, host, number in sockets if number == port]
        assert own == [("ray::ProxyActor", "127.0.0.1")]
        others = {number for _, _, number in sockets} - {port}
        assert min(others) > 10000, "not only ports of Ray's choice, which its token protects except those of metrics"
        assert set(_calls_without_a_token(sockets)) <= {"UNAUTHENTICATED", "UNIMPLEMENTED"}

        first_record_sent, resume = threading.Event(), threading.Event()

        def slow_body() -> Iterator[bytes]:
            for n in range(20):
                yield json.dumps({"id": str(n), "triples": [["Neon", "discoveredBy", f"value {n}"]]}).encode() + b"\n"
                first_record_sent.set()
                if n == 10:
                    resume.wait(120)

        headers = {"Content-Type": "application/x-ndjson"}
        answer = pool.submit(httpx.post, f"{url}/v1/generate:stream", content=slow_body(), headers=headers, timeout=120)
        first_record_sent.wait(60)
        children = served.children()
        served.signal(signal.SIGINT)
        served.wait_until(lambda: "Finishing" in served.output(), "message about active requests")
        until(lambda: _refused(url), "refusal of new requests")
        resume.set()
        end = answer.result(120).text.splitlines()[-1]
        assert served.finish() == 130, served.output()
        assert end == '{"status": "end", "records": 20, "ok": 20, "errors": 0}'
        assert "Traceback" not in served.output()
        psutil.wait_procs(children, 60)
        assert not [child for child in children if child.is_running()]


def _refused(url: str) -> bool:
    try:
        return httpx.post(f"{url}/v1/generate", json={"records": RECORDS}, timeout=2).status_code == 503
    except httpx.TransportError:  # a timeout: no replica accepts the request
        return True


# --- files for Serve's own commands -----------------------------------------------------------------------------------


def test_print_config_prints_a_valid_file_for_serve_deploy(run: Run, bundle: Path) -> None:
    from ray.serve.schema import ServeDeploySchema

    code, printed, _ = run("serve", bundle, "--print-config", *SMALL)
    (application,) = ServeDeploySchema.model_validate(yaml.safe_load(printed)).applications
    assert (code, application.args["fingerprint"]) == (0, fingerprint(bundle))
