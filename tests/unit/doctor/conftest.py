"""An empty home folder for each test, without settings of the user's servers; helpers for findings."""

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from agggen_platform.doctor.findings import Finding
from tests.file_server import http_server

Answer = tuple[int, str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith(("AWS_", "RAY_", "MLFLOW_", "AGGGEN_")):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(folder)
    return folder


def stub_server(
    answers: Mapping[str, Answer], otherwise: Answer = (404, "no such page")
) -> AbstractContextManager[str]:
    """Runs a server with these responses by path and one for all other paths; yields its address."""

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, bytes]:
        status, text = answers.get(request.path.partition("?")[0], otherwise)
        return status, text.encode()

    return http_server(answer)


def levels(findings: Iterable[Finding]) -> dict[str, str]:
    """The level of the last finding about each subject."""
    return {finding.subject: finding.level for finding in findings}


def finding_about(findings: Iterable[Finding], subject: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.subject == subject]
    return finding
