"""The store: the S3 server of the tests with the faults that a store can have, and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from agggen_platform.doctor import store
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from tests.processes import free_ports
from tests.s3_faults import FaultyS3
from tests.unit.doctor.helpers import levels, only


def look(address: str) -> list[Finding]:
    return list(store.check(Settings(storage=address)))


def keys(address: str) -> list[str]:
    import boto3

    bucket = address.removeprefix("s3://").partition("/")[0]
    return [item["Key"] for item in boto3.client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_a_store_that_works(s3: str, faulty_s3: FaultyS3) -> None:
    import boto3

    boto3.client("s3").put_object(Bucket=s3.removeprefix("s3://"), Key="models/runs/model", Body=b"mine")
    faulty_s3.requests.clear()
    assert levels(look(f"{s3}/models/runs")) == {"objects": "ok"}
    assert {method for method, _ in faulty_s3.requests} == {"GET", "PUT", "DELETE"}
    assert keys(s3) == ["models/runs/model"]


@pytest.mark.parametrize(
    ("method", "path", "step"),
    [("PUT", "", "put"), ("GET", "/.agggen-doctor", "get"), ("GET", "list-type=2", "list"), ("DELETE", "", "delete")],
)
def test_the_step_that_is_refused_is_named(method: str, path: str, step: str, s3: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("403", -1, method=method, path=path)
    finding = only(look(f"{s3}/models"), step)
    assert (finding.level, "AccessDenied" in finding.message) == ("error", True)
    assert ("may be left there" in finding.message) == (step != "put")
    assert "AWS_ACCESS_KEY_ID" in str(finding.remedy)


def test_what_is_read_back_must_be_what_was_written(s3: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("short upload", method="PUT")
    assert levels(look(s3))["get"] == "error"


def test_a_bucket_that_does_not_exist(s3: str) -> None:
    assert str(only(look(f"{s3}-other/models"), "put").remedy).startswith("aws s3 mb s3://test-")


def test_a_store_that_is_busy_or_down(s3: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_s3.inject("503", 1)
    assert levels(look(s3)) == {"objects": "ok"}
    faulty_s3.inject("503", -1)
    assert "failed 2 times" in only(look(s3), "put").message
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    finding = only(look(s3), "put")
    assert "nothing answers at http://127.0.0.1" in finding.message
    assert str(finding.remedy).startswith("curl ")


def test_folders(home: Path) -> None:
    (home / "file").write_text("")
    assert levels(look(f"{home}/runs")) == {"folder": "ok"}
    assert levels(look(f"{home}/file/runs")) == {"folder": "error"}
    assert [path.name for path in home.iterdir()] == ["file"]


def test_a_job_on_a_cluster_needs_a_store_that_all_nodes_share(home: Path) -> None:
    job = {"address": "head:6379", "workers": 2}
    assert levels(store.check(Settings())) == {"storage": "note"}
    assert levels(store.check(Settings(**job))) == {"storage": "warning"}
    assert levels(store.check(Settings(**job, storage=str(home)))) == {"folder": "ok", "shared": "note"}
