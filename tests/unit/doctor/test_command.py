"""`agggen doctor`: output without secrets, exit codes, isolation of the checks."""

import json
from pathlib import Path

import pytest

from agggen_platform.doctor import areas
from agggen_platform.doctor.findings import Settings, settings_of
from tests.command import Run
from tests.processes import free_ports
from tests.unit.doctor.conftest import stub_server


def test_the_settings_of_a_job() -> None:
    overrides = ["cluster.workers=4", "cluster.gpus_per_worker=1", "cluster.address=head:6379", "storage.url=s3://m/r"]
    settings = settings_of("elements", [*overrides, "tracking.uri=http://mlflow:5000"], "runs")
    assert (settings.cluster, settings.storage, settings.tracking) == ("head:6379", "s3://m/r", "http://mlflow:5000")
    assert (settings.corpus, settings.workers, settings.gpus_per_worker) == ("elements", 4, 1.0)
    assert settings.distributed
    assert settings_of(None, (), "runs") == Settings(), "reading a configuration would import torch"


@pytest.mark.parametrize(
    ("torch", "subject", "words"),
    [
        ("raise OSError('libcudart.so.12: cannot open')", "import", "libcudart.so.12: cannot open"),
        ("raise ValueError('broken')", "torch", "the check failed: ValueError: broken"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "torch", "killed by SIGSEGV"),
        ("import time; time.sleep(600)", "torch", "no answer within 2 s"),
    ],
)
def test_a_library_that_fails_or_hangs_does_not_affect_other_checks(
    torch: str, subject: str, words: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "torch.py").write_text(torch)
    monkeypatch.syspath_prepend(str(home))
    if "sleep" in torch:
        monkeypatch.setattr(areas, "SECONDS", 2.0)
    (finding,) = areas.examine(Settings(), [areas.Area.torch])[areas.Area.torch]
    assert (finding.level, finding.subject, words in finding.message) == ("error", subject, True), finding


def test_every_area_is_checked_by_default(run: Run) -> None:
    code, out, err = run("doctor", "--json")
    findings = json.loads(out)["findings"]
    assert {tuple(finding) for finding in findings} == {("area", "level", "subject", "message", "remedy")}
    assert {finding["area"] for finding in findings} == set(areas.AREAS)
    assert not [finding for finding in findings if "the check failed" in finding["message"]]
    assert (code, err) == (11 if any(finding["level"] == "error" for finding in findings) else 0, "")


def test_lines_without_a_terminal(run: Run) -> None:
    _, out, err = run("doctor", "--only", "ray")
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["area", "level", "subject", "message", "remedy"]
    assert [line[:3] for line in lines[1:]] == [["ray", "ok", "token"], ["ray", "note", "cluster"]]
    assert err == "error: 0, warning: 0, note: 1\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "rays"], "'rays' is not one of 'python', 'torch', 'ray'"),
        (["--preset", "webnlk"], "did you mean webnlg?"),
        (["cluster.worker=2"], "did you mean 'cluster.workers'?"),
    ],
)
def test_mistakes_of_the_user_are_exit_code_2(arguments: list[str], words: str, run: Run) -> None:
    code, _, err = run("doctor", *arguments)
    assert (code, words in err) == (2, True)


def test_no_secret_is_printed(s3: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's error quotes its credentials; store and cluster refuse theirs."""
    secrets = {
        "AWS_ACCESS_KEY_ID": "AKIASECRETSECRET1234",
        "AWS_SECRET_ACCESS_KEY": "aws-secret-aws-secret",
        "RAY_AUTH_TOKEN": "ray-secret-ray-secret",
        "MLFLOW_TRACKING_USERNAME": "ann",
        "MLFLOW_TRACKING_PASSWORD": "mlflow-secret-mlflow-secret",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    with stub_server({"/api/2.0/mlflow/experiments/get-by-name": (400, " ".join(secrets.values()))}) as url:
        code, out, err = run(
            *("doctor", "--json", "--only", "ray", "--only", "mlflow", "--only", "storage"),
            *(f"tracking.uri={url.replace('://', '://bob:uri-secret@')}", f"storage.url={s3}-other/x"),
            f"cluster.address=127.0.0.1:{free_ports(1)[0]}",
        )
    findings = json.loads(out)["findings"]
    assert code == 11
    assert {finding["area"] for finding in findings if finding["level"] == "error"} == {"ray", "mlflow", "storage"}
    assert any(finding["area"] == "mlflow" and "*** ann ***" in finding["message"] for finding in findings), findings
    for secret in (*(value for value in secrets.values() if value != "ann"), "uri-secret"):
        assert secret not in out + err
