"""Traces of requests to the endpoint, in a real MLflow server."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.test_tracking_server import Server
from tests.processes import until
from tests.serve_app import RECORDS, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def test_mlflow_finds_slow_unfulfilled_and_failed_requests(server: Server, bundle: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    tracing = ("tracing.experiment=requests", f"tracing.server={server.uri}")
    with serving(bundle, *tracing) as endpoint:
        for name, records in (("strict", RECORDS), ("off", RECORDS), ("broken", [{"triples": []}])):
            verify = "strict" if name == "strict" else "off"
            request: dict[str, object] = {"records": records, "options": {"verify": verify}}
            httpx.post(f"{endpoint.url}/v1/generate", json=request, headers={"X-Request-Id": name}, timeout=120)

        def requests_where(condition: str) -> list[str]:
            experiment = client.get_experiment_by_name("requests")
            if experiment is None:
                return []
            traces = client.search_traces(locations=[experiment.experiment_id], filter_string=condition)
            return sorted(trace.info.tags["request"] for trace in traces)

        until(
            lambda: requests_where("attributes.status != 'IN_PROGRESS'") == ["broken", "off", "strict"],
            "traces in MLflow",
        )
        assert requests_where("attributes.status = 'ERROR'") == ["broken"]
        assert requests_where("tags.fulfilled = 'no'") == ["off"]  # random weights give faulty texts
        assert requests_where("tags.fallback = 'yes'") == ["strict"]
        assert requests_where("attributes.execution_time_ms > 0 AND tags.request = 'strict'") == ["strict"]
        assert requests_where("attributes.execution_time_ms > 600000") == []
        experiment = client.get_experiment_by_name("requests")
        (trace,) = client.search_traces(locations=[experiment.experiment_id], filter_string="tags.request = 'off'")
        names = {"POST /v1/generate", "plan", "read", "verify", "write"}
        assert len(trace.data.spans) == 5 and {span.name for span in trace.data.spans} == names
