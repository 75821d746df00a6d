"""The connection to an S3 store: client, timeouts, retries and error messages."""

import os
import random
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from agggen.errors import ConfigError
from agggen_platform.extras import require
from agggen_platform.storage.errors import DamagedError, StorageError

_TRANSIENT_CODES = {  # S3 error codes that are retried, as are errors with a 5xx status other than 501
    *("SlowDown", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded", "429"),
    *("RequestTimeout", "RequestTimeTooSlow", "OperationAborted", "ConditionalRequestConflict"),
    *("BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"),  # corrupted in transit
}
_EXPIRED_CODES = {"ExpiredToken", "TokenRefreshRequired", "InvalidToken"}


@dataclass(frozen=True)
class Policy:
    """Retries and timeouts. An operation fails at most `seconds` + `read_timeout` after its last progress."""

    attempts: int = 6  # maximum number of consecutive attempts without progress
    seconds: float = 90.0  # no attempt starts later than this after the last progress
    pause: float = 0.2  # seconds before the second attempt; doubled before each further attempt, with jitter
    longest_pause: float = 10.0  # seconds
    connect_timeout: float = 5.0  # seconds
    read_timeout: float = 30.0  # seconds without a byte until an attempt fails
    part: int = 16 << 20  # bytes per part of a multipart upload (at least 5 MiB); smaller files use a single request


def connect(policy: Policy) -> Any:
    """A client for the store of the ``AWS_`` variables, cached by environment and process; raises ConfigError."""
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    return _connect(policy, environment, os.getpid())


@lru_cache(maxsize=8)
def _connect(policy: Policy, environment: tuple[tuple[str, str], ...], process: int) -> Any:
    require("boto3")
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=policy.connect_timeout,
        read_timeout=policy.read_timeout,
        request_checksum_calculation="when_required",  # some S3 stores only support Content-MD5
    )
    try:
        return boto3.session.Session().client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"the AWS_ environment variables are invalid: {error}") from error


def code_of(error: BaseException | None) -> str:
    """The S3 error code of `error`; "" if it is not a response of the store."""
    return _response(error).get("Error", {}).get("Code", "")


class Attempts:
    """Counts the attempts of one operation, waits between them, and creates its errors."""

    def __init__(self, policy: Policy, verb: str, address: str, bucket: str, endpoint: str) -> None:
        self._policy, self._bucket, self._endpoint = policy, bucket, endpoint
        self._address, self._problem = address, f"cannot {verb} {address}"
        self._failures, self._start_time = 0, time.monotonic()

    def failed(self, error: Exception, has_answered: bool, progress: bool = False) -> None:
        """Waits before the next attempt, after `error` ended the last one; `progress` resets attempts and time.

        `has_answered`: whether the store has answered any request; if not, its address may be wrong. Raises
        FileNotFoundError if the object does not exist, StorageError if the error is permanent or a limit is reached,
        and `error` itself if the store did not cause it.
        """
        if code_of(error) in ("NoSuchKey", "404", "NotFound"):
            raise FileNotFoundError(self._address) from error
        if progress:
            self._failures, self._start_time = 0, time.monotonic()
        self._failures += 1
        if not _is_transient(error, has_answered):
            self._raise(error)
        seconds = time.monotonic() - self._start_time
        if self._failures >= self._policy.attempts or seconds >= self._policy.seconds:
            raise StorageError(
                f"{self._problem}: {self._endpoint} failed {self._failures} times in {seconds:.0f} s; the last error: "
                f"{_reason(error)}; try again later"
            ) from error
        pause = min(self._policy.longest_pause, self._policy.pause * 2 ** (self._failures - 1))
        time.sleep(pause * random.uniform(0.5, 1))

    def missing_bucket(self) -> StorageError:
        place = f"no bucket {self._bucket!r} at {self._endpoint}"
        return StorageError(f"{self._problem}: {place}; create it, or correct the address")

    def object_replaced(self) -> DamagedError:
        return DamagedError(f"{self._problem}: it was replaced while it was read")

    def _raise(self, error: Exception) -> NoReturn:
        """Raises the error with its cause and remedy; `error` itself if it is not an error of the store."""
        from botocore import exceptions as boto

        code = code_of(error)
        if code == "NoSuchBucket":
            raise self.missing_bucket() from error
        if code == "InvalidRange":  # a shorter object has replaced the one being read
            raise self.object_replaced() from error
        if isinstance(error, boto.FlexibleChecksumError):
            raise DamagedError(f"{self._problem}: its content does not match the store's checksum") from error
        if isinstance(error, boto.ParamValidationError):
            raise ConfigError(f"{self._problem}: {' '.join(str(error).split())}") from error
        if _status(error) == 403 or code in _EXPIRED_CODES:
            reason = (
                f"{self._endpoint} refuses these credentials ({_reason(error)}); AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY (or AWS_PROFILE, or the role) must belong to a user with permission to list, "
                "read, write and delete in the bucket"
            )
        elif code == "NoSuchUpload":
            reason = "another process aborted the upload; only one may write to the folder"
        elif isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.CredentialRetrievalError):
            remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            reason = f"no credentials ({error}); {remedy}"
        elif isinstance(error, boto.ConnectionError):
            remedy = "set AWS_ENDPOINT_URL to the store's address"
            reason = f"nothing answers at {self._endpoint} ({_reason(error)}); {remedy}"
        elif isinstance(error, boto.ClientError | boto.BotoCoreError):
            reason = f"{self._endpoint} answered {_reason(error)}"
        else:
            raise error
        raise StorageError(f"{self._problem}: {reason}") from error


def _response(error: BaseException | None) -> dict[str, Any]:
    return getattr(error, "response", None) or {}  # `response` is None if the connection failed


def _status(error: Exception) -> int:
    return _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _is_transient(error: Exception, has_answered: bool) -> bool:
    """Whether a retry may succeed; `has_answered`: see `Attempts.failed`."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, boto.ClientError):
        return code_of(error) in _TRANSIENT_CODES or (_status(error) >= 500 and _status(error) != 501)
    if isinstance(error, boto.SSLError | boto.ProxyConnectionError):
        return False
    if isinstance(error, boto.EndpointConnectionError | boto.ConnectTimeoutError):
        return has_answered  # then the store is probably restarting; else its address is probably wrong
    return isinstance(error, boto.HTTPClientError | boto.IncompleteReadError | ResponseParserError)


def _reason(error: Exception) -> str:
    if code := code_of(error):
        return f"{code}: {_response(error)['Error'].get('Message', '')}".removesuffix(": ")
    return " ".join(f"{type(error).__name__}: {error}".split())
