"""Object stores and folders that jobs keep checkpoints, bundles and texts in.

A small object is listed, written, read and deleted below the prefix, in a folder of its own, with the client that jobs
use. What is refused is collected, so that one answer names all permissions that are missing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agggen.errors import ConfigError
from agggen_platform.doctor import reach
from agggen_platform.doctor.findings import Check, Finding, error, note, ok, warning
from agggen_platform.doctor.settings import Settings
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy, code_of, connect

AREA = "storage"
POLICY = Policy(attempts=2, seconds=5.0, connect_timeout=3.0, read_timeout=4.0)
"""A store where nothing answers costs 8 seconds."""
_SOURCES = {
    "env": "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    "explicit": "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
    "shared-credentials-file": "the credentials file (~/.aws/credentials, or AWS_SHARED_CREDENTIALS_FILE)",
    "config-file": "the configuration file (~/.aws/config, or AWS_CONFIG_FILE)",
    "iam-role": "the role of this instance",
    "container-role": "the role of this container",
    "assume-role-with-web-identity": "the role of this pod's service account",
}
_SET = "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...  # or AWS_PROFILE=NAME"
_OF_CREDENTIALS = {
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthorizationHeaderMalformed"),
    *("ExpiredToken", "TokenRefreshRequired", "InvalidToken"),
}
_PERMISSIONS = {  # in the order in which they are tried
    "list": "s3:ListBucket",
    "put": "s3:PutObject",
    "head": "s3:GetObject",
    "get": "s3:GetObject",
    "list uploads": "s3:ListBucketMultipartUploads",
    "delete": "s3:DeleteObject",
}


def checks(settings: Settings) -> list[Check]:
    if not settings.storage:
        return [Check(AREA, "storage", lambda: nowhere(settings), 5)]
    return [Check(AREA, address, partial(storage, address, settings), 60) for address in settings.storage]


def nowhere(settings: Settings) -> Iterator[Finding]:
    if settings.cluster and settings.workers:
        yield warning(
            "storage",
            f"no storage.url: checkpoints go to {settings.runs} of each node, which only one machine may be",
            "storage.url=s3://BUCKET/PREFIX  # or a folder that all nodes see",
        )
    else:
        yield note(
            "storage",
            f"no storage.url: checkpoints and bundles lie in {settings.runs}",
            "agggen doctor --storage s3://...",
        )


def storage(address: str, settings: Settings) -> Iterator[Finding]:
    """The store or folder at `address`."""
    try:
        folder = Folder(address).local if not address.startswith("s3://") else None
        if folder is None:
            yield from _s3(address)
            return
    except ConfigError as wrong:  # no address of a store, or the environment describes none
        yield error("address", str(wrong), "storage.url=s3://BUCKET/PREFIX  # and AWS_ENDPOINT_URL=http://HOST:PORT")
        return
    yield writable(folder, "storage.url=FOLDER")
    if settings.cluster and settings.workers:
        yield note("shared", f"{folder} must be the same folder on all nodes, which cannot be seen from here")


def writable(folder: Path, choose: str) -> Finding:
    """Whether files can be made in `folder`, or, where it is yet to be made, above it. Nothing is left there.

    Args:
        choose: what names another folder.
    """
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"agggen")
            file.flush()
    except OSError as failed:
        return error("folder", f"{folder}: files cannot be made in {there}: {failed.strerror or failed}", choose)
    free = shutil.disk_usage(there).free
    made = "" if there == folder.absolute() else ", and will be made"
    return ok("folder", f"{folder} can be written to{made}; {free / 2**30:,.0f} GiB are free")


# --- S3 ----------------------------------------------------------------------------------------------------------


def _s3(address: str) -> Iterator[Finding]:
    who = _credentials()
    yield who
    if who.remedy is not None:
        return
    folder = Folder(address, POLICY)
    client, dates = connect(POLICY), list[str]()

    def answered(http_response: Any, **_: Any) -> None:
        dates.extend(filter(None, [http_response.headers.get("date")]))

    client.meta.events.register("after-call.s3", answered)
    try:
        yield from _tried(folder, client.meta.endpoint_url)
    finally:
        client.meta.events.unregister("after-call.s3", answered)
    if skew := reach.clock(client.meta.endpoint_url, dates[-1] if dates else None):
        yield skew


def _credentials() -> Finding:
    """Which source of credentials boto3 takes, never their values."""
    try:
        import boto3
    except ImportError:
        return error("credentials", "s3:// needs boto3, which is not installed", "pip install 'agggen[cluster]'")
    from botocore.exceptions import BotoCoreError

    try:
        found = boto3.session.Session().get_credentials()
    except BotoCoreError as failed:
        return error("credentials", f"they cannot be used: {failed}", _SET)
    if found is None:
        return error("credentials", "there are none in the environment, the files of AWS, or a role", _SET)
    return ok("credentials", f"from {_SOURCES.get(found.method, found.method)}")


def _tried(folder: Folder, endpoint: str) -> Iterator[Finding]:
    place = f".agggen-doctor-{uuid.uuid4().hex[:12]}"
    name, content = f"{place}/probe", uuid.uuid4().bytes
    steps: dict[str, Callable[[], Any]] = {
        "list": lambda: folder.names(place),
        "put": lambda: folder.write(name, content),
        "head": lambda: folder.size(name),
        "get": lambda: folder.read(name),
        "list uploads": lambda: folder.sweep(place),
        "delete": lambda: folder.delete(name),
    }
    refused: dict[str, str] = {}
    for step, call in steps.items():
        if "put" in refused and step == "head":
            continue  # nothing is there, and the answer to HEAD says less than that to GET
        try:
            answer = call()
        except StorageError as failed:
            cause = failed.__cause__
            if not _is_denial(cause):
                yield _hopeless(folder, endpoint, failed)
                return
            refused[step] = code_of(cause) if isinstance(cause, Exception) else ""
            continue
        if step == "get" and "put" not in refused and answer != content:
            found = f"{folder}: what was written is not what is read back"
            yield error("objects", found, f"aws s3 ls {folder}/  # is there a cache or another store in between?")
    yield _permissions(folder, refused, f"{folder}/{name}")


def _is_denial(cause: BaseException | None) -> bool:
    """Whether the store knows who asks, and says that he may not do just this."""
    response = getattr(cause, "response", None) or {}
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = response.get("Error", {}).get("Code", "")
    return status == 403 and code not in _OF_CREDENTIALS | {"RequestTimeTooSkewed"}


def _hopeless(folder: Folder, endpoint: str, failed: StorageError) -> Finding:
    cause = failed.__cause__
    code = code_of(cause) if isinstance(cause, Exception) else ""
    bucket = folder.address.removeprefix("s3://").partition("/")[0]
    if code in _OF_CREDENTIALS:
        return error("credentials", str(failed), _SET)
    if code == "RequestTimeTooSkewed":
        return error("clock", str(failed), "chronyc makestep  # or timedatectl set-ntp true")
    if "there is no bucket" in str(failed):
        return error("bucket", str(failed), f"aws s3 mb s3://{bucket} --endpoint-url {endpoint}")
    return error("store", str(failed), f"curl -sS -o /dev/null -w '%{{http_code}}\\n' --max-time 5 {endpoint}")


def _permissions(folder: Folder, refused: dict[str, str], probe: str) -> Finding:
    if not refused:
        return ok("permissions", f"{folder}: may list, put, head, get and delete objects, and list uploads")
    bucket, _, prefix = folder.address.removeprefix("s3://").partition("/")
    missing = list(dict.fromkeys(_PERMISSIONS[step] for step in refused))
    statement = {
        "Effect": "Allow",
        "Action": missing,
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/{prefix + '/' if prefix else ''}*"],
    }
    which = ", ".join(f"{step} ({code})" if code else step for step, code in refused.items())
    left = f"; {probe} is left there" if "delete" in refused and "put" not in refused else ""
    found = f"{folder}: these credentials lack {', '.join(missing)}: refused are {which}{left}"
    return error("permissions", found, f"{json.dumps(statement)}  # into the policy of the user or role")
