"""compose.yaml: valid, unprivileged, not reachable from other machines, no secrets in plain text; its set-up script."""

import configparser
import hashlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agggen_platform.serving.keys import read_keys
from tests.processes import run_program

REPO = Path(__file__).parents[2]
FOLDER = REPO / "infra" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
RAY_NODES = [name for name in SERVICES if name.startswith("ray-")]

every_service = pytest.mark.parametrize("name", SERVICES)


def strings(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for key, inner in value.items() for text in (str(key), *strings(inner))]
        case list():
            return [text for inner in value for text in strings(inner)]
    return [str(value)]


def test_compose_yaml_follows_the_compose_specification() -> None:
    options = ("--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml")
    run_program("check-jsonschema", *options, install="pip install check-jsonschema")


@every_service
def test_a_service_is_unprivileged_and_bounded(name: str) -> None:
    service = SERVICES[name]
    assert service["user"] == "10001:10001" and service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert not {"cap_add", "privileged", "pid", "ipc", "network_mode", "devices", "userns_mode"} & set(service)
    assert {"cpus", "memory", "pids"} <= set(service["deploy"]["resources"]["limits"])


def test_only_the_gate_is_published_and_only_on_loopback() -> None:
    assert [name for name, service in SERVICES.items() if service.get("ports")] == ["gate"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name, service in SERVICES.items():
        assert set(service["networks"]) == ({"inside", "loopback"} if name == "gate" else {"inside"}), name
    config = (FOLDER / "gate.cfg").read_text(encoding="utf-8")
    published = sorted(str(port) for port in SERVICES["gate"]["ports"])
    ports = sorted(re.findall(r"^ +bind :(\d+)$", config, re.MULTILINE))
    assert published == [f"127.0.0.1:{port}:{port}" for port in ports]
    targets = re.findall(r"^ +server \S+ ([\w-]+):(\d+)$", config, re.MULTILINE)
    assert sorted(port for _, port in targets) == ports
    assert {service for service, _ in targets} <= set(SERVICES["gate"]["depends_on"])


def test_host_names_in_addresses_are_names_of_services() -> None:
    networks = [service["networks"] for service in SERVICES.values() if isinstance(service["networks"], dict)]
    aliases = [alias for network in networks for item in network.values() for alias in item["aliases"]]
    texts = [*strings(SERVICES), (FOLDER / "prometheus.yaml").read_text(encoding="utf-8")]
    hosts = [host for text in texts for host in re.findall(r"(?:https?://|@|--address=)([\w.-]+)(?=:\d)", text)]
    assert len(hosts) > 8 and set(hosts) <= {*SERVICES, *aliases, "127.0.0.1", "localhost"}


def test_secrets_are_files_outside_of_the_repository_and_all_are_used() -> None:
    assert all(secret == {"file": f"./state/secrets/{name}"} for name, secret in COMPOSE["secrets"].items())
    assert (FOLDER / ".gitignore").read_text(encoding="utf-8").split() == ["/state/"]
    secrets = [secret for service in SERVICES.values() for secret in service.get("secrets", ())]
    assert {secret if isinstance(secret, str) else secret["source"] for secret in secrets} == set(COMPOSE["secrets"])


@every_service
def test_no_secret_is_in_the_environment_or_command_of_a_service(name: str) -> None:
    service = SERVICES[name]
    for key, value in service.get("environment", {}).items():
        assert not re.search(r"PASSWORD|SECRET|TOKEN|KEY|CREDENTIAL", key) or value.startswith("/run/secrets/"), key
        assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), f"{key} contains a password"
    command = " ".join(strings(service.get("command", [])) + strings(service.get("entrypoint", [])))
    assert not re.search(r"(?i)password|secret|token|auth-key", command)


@pytest.mark.parametrize("name", RAY_NODES)
def test_a_ray_node_requires_the_token_and_its_options_fit_its_limits(name: str) -> None:
    scripts = pytest.importorskip("ray.scripts.scripts", reason="Ray is not installed: pip install -e '.[dev]'")
    service = SERVICES[name]
    assert service["environment"]["RAY_AUTH_MODE"] == "token" and "ray_token" in service["secrets"]
    assert service["environment"]["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"
    options = dict(re.findall(r"\s(--[a-z-]+)(?:=(\S+))?", " ".join(service["command"])))
    assert set(options) <= {option for parameter in scripts.start.params for option in parameter.opts}
    assert int(options["--num-cpus"]) <= float(service["deploy"]["resources"]["limits"]["cpus"])
    assert 0 < int(options["--object-store-memory"]) <= int(service["shm_size"].removesuffix("gb")) << 30
    assert options["--metrics-export-port"] == "8080"


def setup(state: Path, owner: int = os.getuid()) -> str:
    command = [sys.executable, "-I", str(FOLDER / "setup.py"), "--state", str(state), "--owner", str(owner)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def state(tmp_path: Path) -> Path:
    setup(tmp_path / "state")
    return tmp_path / "state"


def secrets_in(state: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (state / "secrets").iterdir()}


def test_setup_creates_the_missing_secrets_and_folders_of_compose(state: Path) -> None:
    created = set(secrets_in(state))
    assert created == {*COMPOSE["secrets"], "endpoint_key"}, "the endpoint reads its hash in api_keys"
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", ())]
    sources = [mount.get("source", "") for mount in mounts]
    folders = {Path(source).name for source in sources if source.startswith("./state/")}
    assert folders | {"secrets"} == {path.name for path in state.iterdir()}
    before, missing = secrets_in(state), state / "secrets" / "s3_credentials"
    missing.unlink()
    assert setup(state).splitlines() == [f"created {missing}"]
    assert secrets_in(state) == before
    assert "nothing is missing" in setup(state)


def test_only_the_owner_can_read_secrets_even_in_an_existing_folder(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir(mode=0o755)
    owner = 10001 if os.getuid() == 0 else os.getuid()
    setup(tmp_path, owner)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (secrets, tmp_path / "postgres")} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets.iterdir()} == {0o600}
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (secrets, *secrets.iterdir())} == {(owner, owner)}


def test_files_with_the_same_credentials_agree(state: Path) -> None:
    secrets, aws, mlflow = secrets_in(state), configparser.ConfigParser(), configparser.ConfigParser()
    aws.read_string(secrets["s3_credentials"])
    mlflow.read_string(secrets["mlflow_credentials"])
    assert aws["default"]["aws_access_key_id"] == secrets["s3_access_key_id"]
    assert aws["default"]["aws_secret_access_key"] == secrets["s3_secret_access_key"]
    assert mlflow["mlflow"]["mlflow_tracking_password"] == secrets["mlflow_password"]
    assert mlflow["mlflow"]["mlflow_tracking_username"] == secrets["mlflow_username"]
    [key] = read_keys(state / "secrets" / "api_keys")
    assert (key.name, key.sha256) == ("admin", hashlib.sha256(secrets["endpoint_key"].encode()).digest())
