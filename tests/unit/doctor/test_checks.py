"""`agggen doctor`: packages, torch and GPUs, corpora, disks, Ray, the store, MLflow; output without secrets."""

import json
import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from agggen.corpora.fetch import read_manifest
from agggen_platform.doctor import areas, cluster, store, tracking
from agggen_platform.doctor.findings import Finding, Settings, settings_of
from agggen_platform.doctor.machine import accelerator, data, disk, packages
from agggen_platform.mlflow_client import mlflow_client
from agggen_platform.storage.folder import Folder
from tests.command import Run
from tests.processes import free_ports
from tests.s3_faults import FaultyS3
from tests.unit.doctor.conftest import Answer, finding_about, levels, stub_server

HERE = Settings()


def distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    """Writes the metadata of an installed package, as `importlib.metadata` reads it."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    info.joinpath("METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires)]))


@pytest.mark.parametrize(
    ("requirement", "version", "problem"),
    [
        ("torch>=2.10", "2.10.0+cpu", None),
        ("torch>=2.10", "2.9.1", "agggen needs torch>=2.10, but 2.9.1 is installed"),
        ("absent-package>=1", None, "agggen needs absent-package>=1, but it is not installed"),
        ("ray[data]>=2.55 ; extra == 'cluster'", "2.53.0", "agggen needs ray>=2.55, but 2.53.0 is installed"),
        ("absent-package>=1 ; extra == 'cluster'", None, None),
    ],
)
def test_installed_packages_must_be_in_the_declared_ranges(
    requirement: str, version: str | None, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(tmp_path, "agggen", "0.1.0", requirement)
    if version is not None:
        distribution(tmp_path, requirement.partition(">")[0].partition("[")[0], version)
    monkeypatch.syspath_prepend(str(tmp_path))
    finding = finding_about(packages(HERE), "packages")
    assert finding.level == ("ok" if problem is None else "error")
    assert problem is None or (finding.message, str(finding.remedy)[:13]) == (problem, "pip install '")


@pytest.mark.parametrize(
    ("settings", "driver", "level"),
    [
        (HERE, False, "note"),
        (HERE, True, "warning"),
        (Settings(device="cuda"), False, "error"),
        (Settings(workers=2, gpus_per_worker=1), False, "error"),
        (Settings(workers=2, gpus_per_worker=1, address="head:6379"), False, "note"),
    ],
)
def test_torch_without_gpu(settings: Settings, driver: bool, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/nvidia-smi" if driver else None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert levels(accelerator(settings))["GPU"] == level


def test_corpora_that_are_missing_incomplete_and_complete(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGGEN_DATA_HOME", str(home))
    findings = list(data(HERE))
    assert {levels(findings)[name] for name in ("e2e", "webnlg", "webnlg-plans")} == {"note"}
    assert finding_about(findings, "e2e").remedy == "agggen corpora fetch e2e"
    assert levels(data(Settings(corpus="e2e")))["e2e"] == "error"
    files = read_manifest("e2e")
    for file in files:
        path = home / "e2e" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.truncate(file.bytes)
    assert levels(data(Settings(corpus="e2e")))["e2e"] == "ok"
    with (home / "e2e" / files[0].path).open("ab") as stream:
        stream.write(b"x")
    finding = finding_about(data(HERE), "e2e")
    assert (finding.level, f"the first is {files[0].path}" in finding.message) == ("warning", True)
    assert levels(data(Settings(corpus="webnlk")))["corpus"] == "error"
    (home / "films").mkdir()
    for existing in ("films", "my/{train,dev}.jsonl", "s3://corpora/films"):
        assert "corpus" not in levels(data(Settings(corpus=existing)))


@pytest.mark.parametrize(
    ("free", "runs", "ray"),
    [(900 << 30, "ok", "ok"), (40 << 30, "ok", "error"), (4 << 30, "warning", "error"), (100 << 20, "error", "error")],
)
def test_findings_about_disk_space(free: int, runs: str, ray: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")(1000 << 30, (1000 << 30) - free, free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    result = levels(disk(HERE))
    assert (result["runs"], result["ray"]) == (runs, ray)


def test_a_folder_that_cannot_be_created(home: Path) -> None:
    (home / "file").write_text("")
    assert levels(disk(Settings(runs="file/runs")))["runs"] == "error"
    assert levels(disk(Settings(runs="new/runs")))["runs"] != "error"
    assert [path.name for path in home.iterdir()] == ["file"]


# --- servers ---------------------------------------------------------------------------------------------------------

JOINING = Settings(address="127.0.0.1:6379")
TOKEN = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("settings", "variables", "level"),
    [
        (Settings(), {}, "ok"),
        (Settings(), {"RAY_AUTH_MODE": "disabled"}, "error"),
        (JOINING, {"RAY_AUTH_MODE": "disabled"}, "error"),
        (JOINING, {}, "warning"),
        (JOINING, {"RAY_AUTH_MODE": "token"}, "error"),
        (JOINING, {"RAY_AUTH_TOKEN": TOKEN}, "ok"),
        (JOINING, {"RAY_AUTH_TOKEN_PATH": "private"}, "ok"),
        (JOINING, {"RAY_AUTH_TOKEN_PATH": "readable"}, "warning"),
        (JOINING, {"RAY_AUTH_TOKEN_PATH": "absent"}, "error"),
    ],
)
def test_token(settings: Settings, variables: dict[str, str], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mode in (("private", 0o600), ("readable", 0o644)):
        Path(name).write_text(TOKEN)
        Path(name).chmod(mode)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    findings = list(cluster.token(settings))
    assert levels(findings) == {"token": level}
    assert TOKEN not in str(findings)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens(scheme: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'agggen[ray]'")
    address = f"{scheme}127.0.0.1:{free_ports(1)[0]}"
    finding = finding_about(cluster.check(Settings(address=address)), "cluster")
    assert (finding.level, "Connection refused" in finding.message) == ("error", True)
    assert str(finding.remedy).startswith("nc -vz 127.0.0.1 ")


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (Settings(workers=4, cpus_per_worker=1), None),
        (Settings(workers=5, cpus_per_worker=1), "error"),
        (Settings(workers=5, cpus_per_worker=1, autoscaling=True), "note"),
        (Settings(workers=1, cpus_per_worker=1, gpus_per_worker=1), "error"),
    ],
)
def test_findings_about_room_for_the_jobs_workers(settings: Settings, level: str | None) -> None:
    assert levels(cluster.worker_resources(4, 0, settings)).get("workers") == level


@pytest.mark.parametrize(("status", "level"), [(401, "ok"), (403, "ok"), (200, "warning")])
def test_a_dashboard_must_require_a_token(status: int, level: str) -> None:
    with stub_server({"/api/version": (status, "{}")}) as url:
        assert cluster.dashboard(url).level == level


def check_store(address: str) -> list[Finding]:
    return list(store.check(Settings(storage=address)))


def test_a_store_that_works(s3: str, faulty_s3: FaultyS3) -> None:
    Folder(s3).write("models/runs/model", b"content")
    faulty_s3.requests.clear()
    faulty_s3.inject("503", 1)  # the store may be busy
    assert levels(check_store(f"{s3}/models/runs")) == {"objects": "ok"}
    assert {method for method, _ in faulty_s3.requests} == {"GET", "PUT", "DELETE"}
    assert Folder(s3).names() == ["models/runs/model"]


REFUSED, KEYS = "AccessDenied", "export AWS_ACCESS_KEY_ID"


@pytest.mark.parametrize(
    ("fault", "method", "path", "step", "message", "remedy"),
    [
        ("403", "PUT", "", "put", REFUSED, KEYS),
        ("403", "GET", "/.agggen-doctor", "get", REFUSED, KEYS),
        ("403", "GET", "list-type=2", "list", REFUSED, KEYS),
        ("403", "DELETE", "", "delete", REFUSED, KEYS),
        ("503", "", "", "put", "failed 2 times", "curl "),
        ("short upload", "PUT", "", "get", "differs from the one that was written", "aws s3 ls "),
    ],
)
def test_the_step_that_fails_is_named(
    fault: str, method: str, path: str, step: str, message: str, remedy: str, s3: str, faulty_s3: FaultyS3
) -> None:
    faulty_s3.inject(fault, -1, method=method, path=path)
    finding = finding_about(check_store(f"{s3}/models"), step)
    assert (finding.level, message in finding.message) == ("error", True), finding
    assert ("may be left there" in finding.message) == (fault == "403" and step != "put")
    assert str(finding.remedy).startswith(remedy)


def test_a_store_that_is_down_or_has_no_bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(finding_about(check_store(f"{s3}-other/models"), "put").remedy).startswith("aws s3 mb s3://test-")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    finding = finding_about(check_store(s3), "put")
    assert "nothing answers at http://127.0.0.1" in finding.message
    assert str(finding.remedy).startswith("curl ")


def test_findings_about_a_store_in_a_folder(home: Path) -> None:
    job = {"address": "head:6379", "workers": 2}
    assert levels(store.check(Settings())) == {"storage": "note"}
    assert levels(store.check(Settings(**job))) == {"storage": "warning"}
    finding = finding_about(store.check(Settings(**job, storage=str(home))), "objects")
    assert "whether other nodes share this folder is not checked" in finding.message
    (home / "file").write_text("")
    assert levels(check_store(f"{home}/runs")) == {"objects": "ok"}
    assert finding_about(check_store(f"{home}/file/runs"), "put").remedy == "storage.url=FOLDER"
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["file"]


EXPERIMENT, MODELS = "/api/2.0/mlflow/experiments/get-by-name", "/api/2.0/mlflow/registered-models/search"
ABSENT = (404, json.dumps({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Could not find experiment"}))


def check_mlflow(uri: str | None = None) -> list[Finding]:
    return list(tracking.check(Settings(tracking=uri)))


def test_findings_about_the_mlflow_file_in_runs(home: Path) -> None:
    assert levels(check_mlflow()) == {"tracking": "ok", "registry": "ok"}
    assert list(home.iterdir()) == []
    (home / "runs").write_text("a file where a folder should be")
    assert levels(check_mlflow()) == {"tracking": "error", "registry": "error"}


def test_experiments_that_are_writable_outdated_and_deleted(home: Path) -> None:
    """All cases share a file, which MLflow takes seconds to create."""
    path = home / "mlflow.db"
    uri = f"sqlite:///{path}"
    client = mlflow_client(uri)
    number = client.create_experiment("agggen")
    assert "lets this user write to the experiment 'agggen'" in finding_about(check_mlflow(uri), "tracking").message
    assert "agggen.doctor" in client.get_experiment(number).tags
    shutil.copy(path, home / "old.db")
    with closing(sqlite3.connect(home / "old.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    old = finding_about(check_mlflow(f"sqlite:///{home}/old.db"), "tracking")
    assert str(old.remedy).startswith("mlflow db upgrade sqlite:///")
    client.delete_experiment(number)
    finding = finding_about(check_mlflow(uri), "tracking")
    assert (finding.level, str(finding.remedy).startswith("mlflow experiments restore")) == ("error", True)


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (ABSENT, "ok", "the first run will create the experiment 'agggen'"),
        ((401, "You are not authenticated."), "error", "MLFLOW_TRACKING_PASSWORD="),
        ((403, "Invalid Host header - possible DNS rebinding attack detected"), "error", "--allowed-hosts"),
        ((403, "Permission denied"), "error", "MLFLOW_TRACKING_USERNAME="),
        ((404, "no such page"), "error", "curl -sS"),
        ((400, json.dumps({"error_code": "INTERNAL_ERROR"})), "error", "curl -sS"),
    ],
)
def test_findings_about_an_mlflow_server(answer: Answer, level: str, text: str) -> None:
    with stub_server({EXPERIMENT: answer, MODELS: (200, "{}")}) as url:
        findings = check_mlflow(url)
    assert levels(findings) == {"tracking": level, "registry": "ok"}
    finding = finding_about(findings, "tracking")
    assert text in (finding.remedy or finding.message), finding


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_an_mlflow_where_nothing_listens(scheme: str) -> None:
    uri = f"{scheme}://ann:swordfish@127.0.0.1:{free_ports(1)[0]}/mlflow"
    finding = finding_about(check_mlflow(uri), "tracking")
    assert (finding.level, "swordfish" in str(finding)) == ("error", False)


# --- the command -----------------------------------------------------------------------------------------------------


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
