"""A submitted job and the endpoint on a cluster of containers."""

import json
import subprocess
import sys
import urllib.request

import pytest

from tests.bulk_jobs import numbered_records, write_jsonl
from tests.cluster.containers import Cluster, is_reachable, make_readable, output_of, podman, wait_for
from tests.unit.serve.conftest import save_tiny_model

pytestmark = pytest.mark.cluster


def test_a_submitted_job_and_a_request_to_the_endpoint(cluster: Cluster) -> None:
    folder, store = cluster.folder / "jobs", cluster.bucket / "submitted"
    bundle = str(save_tiny_model(folder / "bundle"))
    records = list(numbered_records(12))
    source = str(write_jsonl(folder / "in.jsonl", records))
    make_readable(folder)
    python = ["python", "/opt/agggen/jobs/generate.py"]
    job = [*python, bundle, source, "--out", "s3://agggen-models/submitted", "format=jsonl", "--runs", "/tmp/runs"]
    submitted = cluster.driver("ray", "job", "submit", "--address=http://127.0.0.1:8265", "--", *job)
    output_of(submitted)
    (part,) = store.glob("texts/*.jsonl")
    texts = [json.loads(line) for line in part.read_text().splitlines()]
    assert [text["id"] for text in texts] == [record.id for record in records]

    keys = folder / "keys"
    make_key = [sys.executable, "-m", "agggen_platform.cli.main", "serve-key", "tests", "--file", str(keys)]
    key = subprocess.run(make_key, capture_output=True, text=True, check=True).stdout.split()[-1]
    subprocess.run(["chown", "10001:10001", str(keys)], check=True)
    settings = ["http.host=0.0.0.0", f"security.keys_file={keys}", "ingress.cpus=0.2", "planner.cpus=0.2"]
    note = ["sh", "-c", 'echo $$ >/tmp/serve.pid; exec "$@"', "sh"]
    serve = cluster.driver(*note, "agggen", "serve", bundle, "--address=auto", *settings, "generator.cpus=0.2")
    address = f"http://{cluster.address.partition(':')[0]}:8000"

    wait_for(serve, lambda: is_reachable(f"{address}/readyz"), "ready endpoint", 240)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request_body = json.dumps({"records": [records[0].as_dict()]}).encode()
    with urllib.request.urlopen(
        urllib.request.Request(f"{address}/v1/generate", request_body, headers), timeout=60
    ) as answer:
        (result,) = json.loads(answer.read())["answers"]
    assert result["texts"][0]["text"] == texts[0]["text"]
    podman("exec", cluster.head, "sh", "-c", "kill -INT $(cat /tmp/serve.pid)")
    output_of(serve, expect=130)
