"""Autoscaling of generators: up in a burst of requests, then down, to zero if allowed."""

import time
from pathlib import Path

import httpx
import pytest

from tests.processes import until
from tests.serve_app import RECORDS, Load, replicas, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]

QUICK = ("generator.max_replicas=2", "generator.downscale_delay_s=2")


def test_a_second_generator_starts_in_a_burst_and_stops_after_it(bundle: Path) -> None:
    """Six clients send one record at a time; the target is two records per replica."""
    with serving(bundle, *QUICK, "generator.target_records=2") as served:
        assert len(replicas("Generator")) == 1
        with Load(served.url, clients=6) as load:
            until(lambda: len(replicas("Generator")) == 2, "second generator")
            until(lambda: httpx.get(f"{served.url}/v1/model", timeout=60).json()["records_at_once"] == 4, "capacity")
        until(lambda: len(replicas("Generator")) == 1, "removal of a generator")
        assert (load.failures(), load.lost) == ({}, [])


def test_an_endpoint_scaled_to_zero_is_ready_and_probes_start_no_generator(bundle: Path) -> None:
    with serving(bundle, *QUICK, "generator.min_replicas=0") as served, httpx.Client(base_url=served.url) as http:
        assert http.get("/readyz", timeout=60).status_code == 200
        until(lambda: not replicas("Generator"), "removal of all generators")
        for _ in range(8):
            started_at = time.monotonic()
            assert http.get("/readyz", timeout=60).status_code == 200
            assert time.monotonic() - started_at < 5
            time.sleep(1)
            assert not replicas("Generator")
        response = http.post("/v1/generate", json={"records": RECORDS}, timeout=120)
        assert response.status_code == 200, response.text
        assert [answer["status"] for answer in response.json()["answers"]] == ["ok", "ok"]
