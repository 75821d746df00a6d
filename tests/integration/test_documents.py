"""Commands and Python block of the endpoint's README, run against a real endpoint."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agggen.corpora.elements import elements_records
from tests.command import command
from tests.documents import REPO, blocks, commands_of
from tests.serve_app import serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]

ADDRESS = "http://127.0.0.1:8000"


def test_the_requests_of_the_readme_are_answered(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    monkeypatch.chdir(tmp_path)
    records = [record.as_dict() for record in list(elements_records("dev"))[:3]]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    executed = []
    with serving(bundle) as endpoint:
        for block in blocks(REPO / "serve/README.md"):
            text = block.text.replace(ADDRESS, endpoint.url)
            if text == block.text:
                continue
            if block.language == "python":
                exec(compile(text, str(block), "exec"), {"a_million_records": iter(records)})
                executed.append("python")
                continue
            for words in commands_of(text):
                if words[0] == "curl":
                    completed = subprocess.run(
                        [*words, "--fail-with-body"], capture_output=True, text=True, timeout=120
                    )
                    assert completed.returncode == 0, f"{words}: {completed.stdout}{completed.stderr}"
                    assert '"status": "error"' not in completed.stdout.replace('":"', '": "'), completed.stdout
                    executed.append("curl")
                if words[0] == "agggen" and words[1] == "ask":
                    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(records[0]).encode())))
                    code, _, err = command(capsys)(*words[1:])
                    assert code == 0, err
                    executed.append("ask")
    assert executed == [*["curl"] * 5, "python", "ask", "ask"]
