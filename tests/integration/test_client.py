"""The client against a real endpoint whose replicas die."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agggen.bundle import load_bundle
from agggen.records import Record
from agggen_platform.client import Client, Retry
from tests.serve_app import kill, replicas, serving
from tests.unit.serve.conftest import save_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]

RECORDS: list[dict[str, Any]] = [
    {"id": f"r{n}", "triples": [["Neon", "discoveredBy", f"person {n}"], ["Neon", "discoveryPlace", "London"]]}
    for n in range(120)
]


def test_a_stream_outlives_the_replicas_that_work_on_it(tmp_path: Path) -> None:
    bundle = save_tiny_model(tmp_path / "bundle")
    found = []
    patient = Retry(attempts=1000, longest_wait=1)  # how long replicas take to come back is not the question here
    with serving(bundle) as endpoint, Client(endpoint.url, piece_records=50, retry=patient) as client:
        assert client.ready()
        for answer in client.stream(iter(RECORDS)):
            found.append(answer)
            if len(found) == 30:
                kill(replicas("Generator"))
            if len(found) == 60:
                kill(replicas("Ingress"))
    assert [(answer["index"], answer["id"], answer["status"]) for answer in found] == [
        (place, record["id"], "ok") for place, record in enumerate(RECORDS)
    ]
    generator = load_bundle(bundle).generator()
    texts = [best.text for best, *_ in generator.generate([Record.of(record) for record in RECORDS])]
    assert [answer["texts"][0]["text"] for answer in found if answer["status"] == "ok"] == texts
