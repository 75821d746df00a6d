"""The endpoint through Serve's proxy: no access without a key, no keys in logs."""

from pathlib import Path

import httpx
import psutil
import pytest

from tests.serve_app import RECORDS, serving
from tests.unit.serve.http_calls import issue

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def test_a_key_is_in_no_log_of_serve(bundle: Path, tmp_path: Path) -> None:
    alice, wrong = issue(tmp_path / "keys.txt", "alice"), "agk_a-key-that-was-never-given"
    with (
        serving(bundle, f"security.keys_file={tmp_path / 'keys.txt'}") as endpoint,
        httpx.Client(base_url=endpoint.url, timeout=60, trust_env=False) as client,
    ):

        def status(key: str | None, path: str = "/v1/generate") -> int:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            return client.post(path, json={"records": RECORDS[:1]}, headers=headers).status_code

        assert (status(alice), status(wrong), status(None), status(alice, "/v1/nowhere")) == (200, 401, 401, 404)
        assert client.get("/v1/model").status_code == 401
        arguments = [word for child in psutil.Process().children(recursive=True) for word in child.cmdline()]
        logs = next(Path(word.partition("=")[2]) for word in arguments if "session_dir=" in word) / "logs"
        files = {path: path.read_text(errors="replace") for path in logs.rglob("*") if path.is_file()}
    assert any("/v1/generate" in text for text in files.values()), "the logs lack these requests"
    assert [path for path, text in files.items() if alice in text or wrong in text] == []
