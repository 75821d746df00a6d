"""The store of checkpoints, bundles and texts: writes, reads, lists and deletes a small object."""

import uuid
from collections.abc import Iterator

from agggen.errors import ConfigError
from agggen_platform.doctor.findings import Finding, Settings, error, note, ok, warning
from agggen_platform.extras import is_installed
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from agggen_platform.storage.s3_client import Policy

_POLICY = Policy(attempts=2, seconds=5.0, connect_timeout=3.0, read_timeout=4.0)


def check(settings: Settings) -> Iterator[Finding]:
    if settings.storage is None and settings.distributed:
        message = f"no storage.url: each node writes checkpoints to its own {settings.runs}, unreadable for the others"
        yield warning("storage", message, "storage.url=s3://BUCKET/PREFIX  # or a folder that all nodes share")
    elif settings.storage is None:
        yield note("storage", f"no storage.url: checkpoints and bundles are written to {settings.runs}")
    else:
        try:
            yield from _check_objects(Folder(settings.storage, _POLICY))
        except ConfigError as failure:
            remedy = "storage.url=s3://BUCKET/PREFIX  # and AWS_ENDPOINT_URL=http://HOST:PORT, unless the store is AWS"
            yield error("address", str(failure), remedy if is_installed("boto3") else "pip install 'agggen[ray]'")


def _check_objects(folder: Folder) -> Iterator[Finding]:
    name, content = f".agggen-doctor-{uuid.uuid4().hex[:12]}", uuid.uuid4().bytes
    steps = {
        "put": lambda: folder.write(name, content),
        "get": lambda: folder.read(name),
        "list": lambda: folder.names(),
        "delete": lambda: folder.delete(name),
    }
    for step, call in steps.items():
        try:
            result = call()
        except StorageError as failure:
            leftover_note = "" if step == "put" else f"; {folder.at(name)} may be left there"
            yield error(step, f"{failure}{leftover_note}", _remedy(str(failure), folder.address))
            return
        if step == "get" and result != content:
            message = f"{folder}: the object that was read differs from the one that was written"
            yield error("get", message, f"aws s3 ls {folder}/  # is there a cache or another store in between?")
    shared_note = "" if folder.local is None else "; whether other nodes share this folder is not checked"
    yield ok("objects", f"{folder}: objects can be put, read, listed and deleted{shared_note}")


def _remedy(message: str, address: str) -> str:
    if not address.startswith("s3://"):
        return "storage.url=FOLDER"
    if "no bucket" in message:
        return f"aws s3 mb s3://{address.removeprefix('s3://').partition('/')[0]}"
    if "credentials" in message:
        return "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...  # or AWS_PROFILE=NAME; or grant the permission"
    return "curl -sS --max-time 5 $AWS_ENDPOINT_URL  # does the store run, and can this machine reach it?"
