"""The implementation of `Folder` for S3 stores, by boto3, with the retries of `s3_client.Attempts`.

boto3's own retries are disabled: they have no limit on the total time and cannot resume an interrupted download.
Uploads are atomic; a multipart upload is aborted if a part fails. Every upload has a ``Content-MD5``, the only checksum
that all implementations of S3 verify.
"""

import base64
import hashlib
import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from agggen_platform.storage.errors import StorageError, as_storage_error
from agggen_platform.storage.s3_client import Attempts, Policy, code_of, connect

_CHUNK = 1 << 18  # bytes per read of a download
_MAX_PARTS = 10_000  # S3's limit per multipart upload
_CONCURRENT_PARTS = 4
_TOKEN_KEY = "agggen-upload"  # metadata key of the random token that identifies a multipart upload
T = TypeVar("T")


class S3Store:
    """The objects of `bucket` below `prefix`; see `Folder`."""

    def __init__(self, bucket: str, prefix: str, policy: Policy) -> None:
        self.bucket, self.prefix, self.policy = bucket, prefix, policy
        self._client = connect(policy)
        self._has_answered = False  # whether the store has answered any request
        self._bucket_exists = False  # True after a successful check

    def size(self, name: str) -> int | None:
        try:
            return self._head(name)["ContentLength"]
        except FileNotFoundError:
            return None

    def sizes(self, subfolder: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for page in self._pages(subfolder, self._client.list_objects_v2, "ContinuationToken"):
            for entry in page.get("Contents", ()):
                if not entry["Key"].endswith("/"):
                    sizes[entry["Key"].removeprefix(self.prefix).lstrip("/")] = entry["Size"]
        return sizes

    def _pages(self, subfolder: str, request: Callable[..., Any], *markers: str) -> Iterator[dict[str, Any]]:
        """The pages of a listing, each with its own retries; `markers`: the request's continuation parameters."""
        prefix = self._key(subfolder) + "/" if subfolder or self.prefix else ""
        position: dict[str, str] = {}
        while True:
            page = self._call("list", subfolder, request, Prefix=prefix, **position)
            yield page
            if not page.get("IsTruncated"):
                return
            position = {marker: page[f"Next{marker}"] for marker in markers}

    def version(self, name: str) -> str:
        return str(self._head(name)["ETag"])

    def open(self, name: str) -> io.RawIOBase:
        return _RangeFile(self, name, self._head(name))

    def chunks(self, name: str, first: int = 0, end: int | None = None, version: str | None = None) -> Iterator[bytes]:
        """The bytes [first, end) of an object; an interrupted download is resumed. `version`: the expected ETag."""
        attempts = self._attempts("read", name)
        while True:
            start = first
            is_partial = first > 0 or end is not None
            range_header = {"Range": f"bytes={first}-{'' if end is None else end - 1}"} if is_partial else {}
            try:
                response = self._client.get_object(Bucket=self.bucket, Key=self._key(name), **range_header)
                self._has_answered = True
                if version not in (None, response["ETag"]):
                    raise attempts.object_replaced()
                version = response["ETag"]
                for chunk in response["Body"].iter_chunks(_CHUNK):
                    first += len(chunk)
                    yield chunk
                return
            except Exception as error:
                attempts.failed(error, self._has_answered, progress=first > start)

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="agggen-") as scratch:
            path = Path(scratch) / "object"
            with as_storage_error("write", path, only_full=True):
                yield path
            self.upload(name, path)

    def write(self, name: str, content: bytes) -> None:
        body = {"Body": content, "ContentMD5": _md5(content)}
        self._call("write", name, self._client.put_object, Key=self._key(name), **body)

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Sends ``If-Match`` or ``If-None-Match``; some stores reject or ignore these headers, for example rclone."""

        def get(**arguments: Any) -> tuple[bytes, str]:
            response = self._client.get_object(**arguments)
            return response["Body"].read(), response["ETag"]

        key, is_conditional = self._key(name), True
        while True:
            current: bytes | None = None
            condition = {"IfNoneMatch": "*"}
            with suppress(FileNotFoundError):
                current, etag = self._call("read", name, get, Key=key)
                condition = {"IfMatch": etag}
            if (new_content := change(current)) is None:
                return current
            request = {"Key": key, "Body": new_content, "ContentMD5": _md5(new_content)}
            try:
                self._call("write", name, self._client.put_object, **request, **(condition if is_conditional else {}))
                return new_content
            except FileNotFoundError:  # the object was deleted after it was read, or the bucket is missing
                self._check_bucket(name)
            except StorageError as error:
                code = code_of(error.__cause__)
                if code not in ("PreconditionFailed", "NotImplemented") or not is_conditional:
                    raise
                is_conditional = code != "NotImplemented"

    def upload(self, name: str, path: Path) -> None:
        with as_storage_error("read", path):
            size = path.stat().st_size
            content = path.read_bytes() if size <= self.policy.part else None
        if content is not None:
            self.write(name, content)
            return
        key, token = self._key(name), uuid.uuid4().hex
        created = self._call("write", name, self._client.create_multipart_upload, Key=key, Metadata={_TOKEN_KEY: token})
        upload = {"Key": key, "UploadId": created["UploadId"]}
        try:
            self._complete(name, upload, self._upload_parts(name, path, size, upload), token)
        except BaseException as error:
            try:
                self._abort(name, **upload)
            except StorageError as failure:
                error.add_note(f"uploaded parts may remain in the store: {failure}")
            raise

    def download(self, name: str, path: Path) -> None:
        size = self._head(name)["ContentLength"]
        chunks = self.chunks(name)
        with as_storage_error("write", path, size), path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):  # Google Cloud Storage reports a missing object
            self._call("delete", name, self._client.delete_object, Key=self._key(name))

    def remove_partial_files(self, subfolder: str) -> None:
        """Aborts unfinished multipart uploads."""
        try:
            for page in self._pages(subfolder, self._client.list_multipart_uploads, "KeyMarker", "UploadIdMarker"):
                for upload in page.get("Uploads", ()):
                    self._abort(subfolder, Key=upload["Key"], UploadId=upload["UploadId"])
        except StorageError as error:
            if code_of(error.__cause__) != "NoSuchUpload":  # rclone reports this without unfinished uploads
                raise

    def _upload_parts(self, name: str, path: Path, size: int, upload: dict[str, str]) -> list[dict[str, Any]]:
        """Uploads the parts of a file concurrently; returns the number and the ETag of each part."""
        part_size = max(self.policy.part, -(-size // _MAX_PARTS))

        def upload_part(number: int) -> dict[str, Any]:
            with as_storage_error("read", path), path.open("rb") as file:
                file.seek((number - 1) * part_size)
                content = file.read(part_size)
            body = {"Body": content, "ContentMD5": _md5(content)}
            response = self._call("write", name, self._client.upload_part, PartNumber=number, **upload, **body)
            return {"PartNumber": number, "ETag": response["ETag"]}

        pool = ThreadPoolExecutor(_CONCURRENT_PARTS, thread_name_prefix="upload")
        try:
            return list(pool.map(upload_part, range(1, -(-size // part_size) + 1)))
        finally:
            pool.shutdown(cancel_futures=True)

    def _complete(self, name: str, upload: dict[str, str], parts: list[dict[str, Any]], token: str) -> None:
        def complete(**arguments: Any) -> None:
            try:
                self._client.complete_multipart_upload(**arguments)
            except Exception as error:
                # If the response to a successful attempt was lost, the upload is gone and the object has the token.
                if code_of(error) != "NoSuchUpload":
                    raise
                with suppress(FileNotFoundError):
                    if self._head(name)["Metadata"].get(_TOKEN_KEY) == token:
                        return
                raise

        self._call("write", name, complete, MultipartUpload={"Parts": parts}, **upload)

    def _abort(self, name: str, **upload: str) -> None:
        try:
            self._call("abort the upload of", name, self._client.abort_multipart_upload, **upload)
        except StorageError as error:
            if code_of(error.__cause__) != "NoSuchUpload":  # already aborted; the response was lost
                raise

    def _head(self, name: str) -> dict[str, Any]:
        try:
            return self._call("inspect", name, self._client.head_object, Key=self._key(name))
        except FileNotFoundError:
            self._check_bucket(name)  # HEAD responses do not distinguish a missing bucket from a missing object
            raise

    def _check_bucket(self, name: str) -> None:
        if not self._bucket_exists:
            try:
                self._call("inspect", name, self._client.head_bucket)
            except FileNotFoundError:
                raise self._attempts("inspect", name).missing_bucket() from None
            self._bucket_exists = True

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self.prefix, name)))

    def _attempts(self, verb: str, name: str) -> Attempts:
        address = f"s3://{self.bucket}/{self._key(name)}"
        return Attempts(self.policy, verb, address, self.bucket, self._client.meta.endpoint_url)

    def _call(self, verb: str, name: str, request: Callable[..., T], **arguments: Any) -> T:
        """Makes a request to this bucket, with retries; raises FileNotFoundError if the object does not exist."""
        attempts = self._attempts(verb, name)
        while True:
            try:
                response = request(Bucket=self.bucket, **arguments)
            except Exception as error:
                attempts.failed(error, self._has_answered)
            else:
                self._has_answered = True
                return response


class _RangeFile(io.RawIOBase):
    """An object as a seekable file; each read is an HTTP range request."""

    def __init__(self, store: S3Store, name: str, head: dict[str, Any]) -> None:
        self._store, self._name = store, name
        self._size, self._etag, self._position = head["ContentLength"], head["ETag"], 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        end = min(self._size, self._position + len(buffer))
        filled = 0
        if self._position < end:
            for chunk in self._store.chunks(self._name, self._position, end, self._etag):
                buffer[filled : filled + len(chunk)] = chunk
                filled += len(chunk)
        self._position += filled
        return filled


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
