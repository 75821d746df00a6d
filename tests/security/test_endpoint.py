"""The endpoint over real HTTP through Serve's proxy: no access without a key, and keys in no log."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from agggen_platform.serving.keys import add_key, new_key
from tests.serve_app import RECORDS, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]

ASKED = {"records": RECORDS[:1]}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.txt"


@pytest.fixture(scope="module")
def alice(keys: Path) -> str:
    key, line = new_key("alice")
    add_key(keys, line)
    return key


@pytest.fixture(scope="module")
def guarded(bundle: Path, keys: Path, alice: str, ray_cluster: None) -> Iterator[httpx.Client]:
    """An endpoint with keys."""
    with (
        serving(bundle, f"security.keys_file={keys}") as endpoint,
        httpx.Client(base_url=endpoint.url, timeout=60, trust_env=False) as client,
    ):
        yield client


def status(client: httpx.Client, headers: dict[str, str], path: str = "/v1/generate") -> int:
    return client.post(path, json=ASKED, headers=headers).status_code


def test_a_key_is_in_no_log_of_serve(guarded: httpx.Client, alice: str) -> None:
    wrong = "agk_a-key-that-was-never-given"
    assert status(guarded, {"Authorization": f"Bearer {alice}"}) == 200
    assert status(guarded, {"Authorization": f"Bearer {wrong}"}) == status(guarded, {}) == 401
    assert guarded.get("/v1/model").status_code == 401
    assert status(guarded, {"Authorization": f"Bearer {alice}"}, "/v1/nowhere") == 404
    arguments = [word for child in psutil.Process().children(recursive=True) for word in child.cmdline()]
    logs = next(Path(word.partition("=")[2]) for word in arguments if "session_dir=" in word) / "logs"
    files = {path: path.read_text(errors="replace") for path in logs.rglob("*") if path.is_file()}
    assert any("/v1/generate" in text for text in files.values()), "the logs hold these requests"
    assert [path for path, text in files.items() if alice in text or wrong in text] == []
