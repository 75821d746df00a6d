"""Stores: the S3 server of the tests, well and with each of the faults that a store can have; folders."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from agggen_platform.doctor import store
from agggen_platform.doctor.findings import Finding
from agggen_platform.doctor.settings import Settings
from tests import s3_faults
from tests.processes import free_ports
from tests.s3_faults import FaultyS3
from tests.unit.doctor.servers import black_hole, only, said

HERE = Settings()


def look(address: str) -> list[Finding]:
    found = list(store.storage(address, HERE))
    assert "test-secret" not in str(found)
    return found


@pytest.fixture(scope="module")
def proxy(_s3_server: str) -> Iterator[FaultyS3]:
    """One for all tests: a client of boto3 is kept as long as its endpoint is the same, and takes a second to make."""
    with FaultyS3(_s3_server) as one:
        yield one


@pytest.fixture
def faulty_s3(s3: str, proxy: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> FaultyS3:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    proxy.heal()
    return proxy


@pytest.fixture
def objects(s3: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty prefix on the server behind the proxy."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    return f"{s3}/models/runs"


def keys(address: str) -> list[str]:
    import boto3

    bucket = address.removeprefix("s3://").partition("/")[0]
    return [item["Key"] for item in boto3.client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_a_store_that_is_well(objects: str, faulty_s3: FaultyS3) -> None:
    found = look(objects)
    assert said(found) == {"credentials": "ok", "permissions": "ok", "clock": "ok"}
    assert only(found, "credentials").found.startswith("from the environment (AWS_ACCESS_KEY_ID")
    assert {method for method, _ in faulty_s3.requests} == {"GET", "PUT", "HEAD", "DELETE"}
    assert all("/models/runs/.agggen-doctor-" in path or "prefix=models" in path for _, path in faulty_s3.requests)
    assert keys(objects) == []  # nothing is left


def test_objects_of_others_are_not_touched(objects: str) -> None:
    import boto3

    bucket = objects.removeprefix("s3://").partition("/")[0]
    boto3.client("s3").put_object(Bucket=bucket, Key="models/runs/model", Body=b"mine")
    assert said(look(objects))["permissions"] == "ok"
    assert keys(objects) == ["models/runs/model"]


REFUSED = [
    ("PUT", "", "s3:PutObject"),
    ("GET", "list-type=2", "s3:ListBucket"),
    ("HEAD", "/probe", "s3:GetObject"),
    ("GET", "/probe", "s3:GetObject"),
    ("GET", "uploads", "s3:ListBucketMultipartUploads"),
    ("DELETE", "", "s3:DeleteObject"),
]


def test_the_permission_that_is_missing_is_named(objects: str, faulty_s3: FaultyS3) -> None:
    bucket = objects.removeprefix("s3://").partition("/")[0]
    for method, path, missing in REFUSED:
        faulty_s3.heal()
        faulty_s3.inject("403", -1, method=method, path=path)
        found = only(look(objects), "permissions")
        assert found.level == "error"
        assert f"lack {missing}: refused are" in found.found
        statement = json.loads(str(found.remedy).partition("  #")[0])
        assert statement["Action"] == [missing]
        assert statement["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/models/runs/*"]
        assert ("is left there" in found.found) == (method == "DELETE")


def test_all_permissions_that_are_missing_are_named_at_once(objects: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("403", -1)
    statement = json.loads(str(only(look(objects), "permissions").remedy).partition("  #")[0])
    names = ["ListBucket", "PutObject", "GetObject", "ListBucketMultipartUploads", "DeleteObject"]
    assert statement["Action"] == [f"s3:{name}" for name in names]


def test_what_is_read_back_must_be_what_was_written(objects: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("short upload", method="PUT")
    assert said(look(objects))["objects"] == "error"


def test_credentials_that_the_store_does_not_know(
    objects: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"):
        monkeypatch.setitem(s3_faults._CODES, "403", (403, code))
        faulty_s3.heal()
        faulty_s3.inject("403", -1)
        found = look(objects)
        assert [one.level for one in found if one.about == "credentials"] == ["ok", "error"]
        assert code in found[1].found
        assert faulty_s3.count() == 1  # what comes next would be refused as well


def test_a_bucket_that_is_not_there(objects: str) -> None:
    found = only(look(f"{objects.partition('/models')[0]}-other/models"), "bucket")
    assert found.level == "error"
    assert str(found.remedy).startswith("aws s3 mb s3://test-")


def test_a_store_that_is_busy_for_longer_than_a_moment(objects: str, faulty_s3: FaultyS3) -> None:
    faulty_s3.inject("503", 1)
    assert said(look(objects))["permissions"] == "ok"
    faulty_s3.inject("503", -1)
    assert "failed 2 times" in only(look(objects), "store").found


def test_nobody_at_the_endpoint(objects: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    found = only(look(objects), "store")
    assert (found.level, "nothing answers at http://127.0.0.1" in found.found) == ("error", True)


def test_a_store_that_never_answers(objects: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "POLICY", store.Policy(attempts=2, seconds=1.0, connect_timeout=0.5, read_timeout=0.5))
    begin = time.monotonic()
    with black_hole() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        assert said(look(objects)) == {"credentials": "ok", "store": "error"}
    assert time.monotonic() - begin < 20


def test_what_a_store_that_never_answers_costs() -> None:
    policy = store.POLICY
    assert policy.attempts * max(policy.connect_timeout, policy.read_timeout) + policy.longest_pause < 20


@pytest.mark.parametrize(("seconds", "level"), [(-300, "warning"), (3600, "error")])
def test_a_clock_that_differs_from_the_store(
    seconds: float, level: str, objects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    date = formatdate(time.time() + seconds, usegmt=True)
    monkeypatch.setattr(s3_faults._Handler, "date_time_string", lambda *_: date)
    assert said(look(objects))["clock"] == level


def test_a_store_that_refuses_our_clock(objects: str, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(s3_faults._CODES, "403", (403, "RequestTimeTooSkewed"))
    faulty_s3.inject("403", -1)
    found = look(objects)[1]
    assert (found.about, found.level, "RequestTimeTooSkewed" in found.found) == ("clock", "error", True)


# --- credentials: no request is made -----------------------------------------------------------------------------


def credentials() -> Finding:
    found = store._credentials()
    assert "test-secret" not in str(found)
    return found


def test_no_credentials() -> None:
    assert said(store.storage("s3://bucket", HERE)) == {"credentials": "error"}


def test_half_of_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    assert credentials().level == "error"


def test_credentials_of_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(
        "[lab]\naws_access_key_id = AKIATESTTESTTESTTEST\naws_secret_access_key = test-secret\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert (credentials().level, "the credentials file" in credentials().found) == ("ok", True)
    monkeypatch.setenv("AWS_PROFILE", "absent")
    assert (credentials().level, "absent" in credentials().found) == ("error", True)


@pytest.mark.parametrize("address", ["gs://bucket/x", "s3://", "s3://bucket/../x"])
def test_an_address_that_is_none(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    found = look(address)[-1]
    assert (found.about, found.level, address in found.found or ".." in found.found) == ("address", "error", True)


def test_an_endpoint_that_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio")
    found = look("s3://bucket/x")[-1]
    assert (found.about, found.level, "describes no S3 store" in found.found) == ("address", "error", True)


# --- folders, and none -------------------------------------------------------------------------------------------


def test_a_folder(home: Path) -> None:
    (found,) = store.storage(f"{home}/runs/of/mine", HERE)
    assert (found.level, "will be made" in found.found) == ("ok", True)
    assert list(home.iterdir()) == []


def test_a_folder_that_cannot_be_written_to(home: Path) -> None:
    (home / "file").write_text("")
    (found,) = store.storage(f"{home}/file/runs", HERE)
    assert (found.level, found.remedy) == ("error", "storage.url=FOLDER")


def test_a_job_on_a_cluster_needs_a_store_that_all_nodes_see(home: Path) -> None:
    job = Settings(address="head:6379", workers=2)
    assert said(store.nowhere(job)) == {"storage": "warning"}
    assert said(store.nowhere(HERE)) == {"storage": "note"}
    assert said(store.storage(str(home), job)) == {"folder": "ok", "shared": "note"}
