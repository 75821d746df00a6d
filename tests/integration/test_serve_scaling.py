"""Autoscaling of generators: to zero without requests, up in a burst of requests, and down again."""

import time
from pathlib import Path

import httpx
import pytest

from tests.processes import until
from tests.serve_app import RECORDS, Load, replicas, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def test_generators_follow_the_load_and_probes_start_none(bundle: Path) -> None:
    """In the burst, six clients send one record at a time; the target is two records per replica."""
    settings = [f"generator.{setting}" for setting in ("min_replicas=0", "max_replicas=2", "downscale_delay_s=2")]
    with (
        serving(bundle, *settings, "generator.target_records=2") as served,
        httpx.Client(base_url=served.url, timeout=120) as http,
    ):
        assert http.get("/readyz").status_code == 200
        until(lambda: not replicas("Generator"), "removal of all generators")
        for _ in range(8):
            started_at = time.monotonic()
            assert http.get("/readyz").status_code == 200
            assert time.monotonic() - started_at < 5
            time.sleep(1)
            assert not replicas("Generator")
        response = http.post("/v1/generate", json={"records": RECORDS})
        assert response.status_code == 200, response.text
        assert [answer["status"] for answer in response.json()["answers"]] == ["ok", "ok"]
        with Load(served.url, clients=6) as load:
            until(lambda: len(replicas("Generator")) == 2, "second generator")
            until(lambda: http.get("/v1/model").json()["records_at_once"] == 4, "capacity")
        until(lambda: len(replicas("Generator")) < 2, "removal of a generator")
        assert (load.failures(), load.lost) == ({}, [])
