"""compose.yaml against the Compose specification's schema and against this project's rules. Nothing is started here."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

REPO = Path(__file__).parents[2]
FOLDER = REPO / "infra" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GATE = "gate"

each_service = pytest.mark.parametrize("name", SERVICES)


def published() -> list[tuple[str, str]]:
    return [(name, str(port)) for name, service in SERVICES.items() for port in service.get("ports", ())]


def strings(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for key, each in value.items() for text in (str(key), *strings(each))]
        case list():
            return [text for each in value for text in strings(each)]
        case _:
            return [str(value)]


def test_it_follows_the_compose_specification() -> None:
    package = importlib.util.find_spec("check_jsonschema")
    if package is None or not package.submodule_search_locations:
        pytest.skip("check-jsonschema, which ships the specification's schema, is not installed")
    file = Path(package.submodule_search_locations[0]) / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    found = [f"{'/'.join(map(str, each.path))}: {each.message}" for each in validator.iter_errors(COMPOSE)]
    assert found == []
    broken = {**COMPOSE, "services": {**SERVICES, "s3": {**SERVICES["s3"], "reed_only": True}}}
    assert list(validator.iter_errors(broken)), "the schema takes anything"


def test_all_that_the_product_needs_is_there() -> None:
    wanted = {"ray-head", "ray-worker", "ray-worker-gpu", "mlflow", "postgres", "s3", "prometheus", "grafana", GATE}
    assert set(SERVICES) == wanted
    assert [name for name, service in SERVICES.items() if service.get("profiles")] == ["ray-worker-gpu"]


# --- what a service may do -----------------------------------------------------------------------------------------


@each_service
def test_an_image_has_a_full_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"[a-z./-]+:v?\d+\.\d+(\.\d+)?(-[a-z0-9]+)?", image), image
    if "build" in SERVICES[name]:
        version = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
        assert image.partition(":")[2].split("-")[0] == version


@each_service
def test_it_is_not_root_and_cannot_become_it(name: str) -> None:
    service = SERVICES[name]
    assert service["user"] == "10001:10001"
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "ipc", "network_mode", "devices", "userns_mode"} & set(service)
    assert not any("docker.sock" in text for text in strings(service))


@each_service
def test_its_root_file_system_is_read_only(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    for mount in service.get("volumes", ()):
        assert mount["type"] in ("bind", "volume")
        if mount["type"] == "bind":  # Docker would make a missing folder as root
            assert mount["bind"] == {"create_host_path": False}
            assert mount.get("read_only") or mount["source"].startswith("./state/")


@each_service
def test_it_is_bounded(name: str) -> None:
    limits = SERVICES[name]["deploy"]["resources"]["limits"]
    assert float(limits["cpus"]) > 0 and re.fullmatch(r"\d+[MG]", limits["memory"]) and limits["pids"] > 0
    assert SERVICES[name]["logging"]["options"]["max-size"]


@each_service
def test_it_says_whether_it_works(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL") and check["interval"] and check["timeout"] and check["retries"]


@each_service
def test_it_waits_until_what_it_needs_works(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"} and other in SERVICES


# --- who reaches what ----------------------------------------------------------------------------------------------


def test_only_the_gate_is_published_and_only_on_loopback() -> None:
    assert {name for name, _ in published()} == {GATE}
    assert [port for _, port in published() if not re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)] == []


def test_everything_but_the_gate_is_on_the_network_without_a_way_out() -> None:
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name, service in SERVICES.items():
        assert set(service["networks"]) == ({"inside", "loopback"} if name == GATE else {"inside"}), name


def test_the_gate_has_a_backend_for_each_published_port_and_none_else() -> None:
    config = (FOLDER / "gate.cfg").read_text(encoding="utf-8")
    ports = sorted(port.rpartition(":")[2] for _, port in published())
    assert sorted(re.findall(r"^ +bind :(\d+)$", config, re.MULTILINE)) == ports
    assert sorted(re.findall(r"^backend at-(\d+)$", config, re.MULTILINE)) == ports
    targets = re.findall(r"^ +server \S+ ([\w-]+):(\d+)$", config, re.MULTILINE)
    assert {name for name, _ in targets} <= set(SERVICES[GATE]["depends_on"])
    assert sorted(port for _, port in targets) == ports


def test_a_name_that_a_service_is_called_by_is_one_on_the_network() -> None:
    aliases = [alias for service in SERVICES.values() for alias in names_of(service)]
    known = {*SERVICES, *aliases, "127.0.0.1", "localhost"}
    texts = [*strings(SERVICES), (FOLDER / "prometheus.yaml").read_text(encoding="utf-8")]
    called = [name for text in texts for name in re.findall(r"(?:https?://|@|--address=)([\w.-]+)(?=:\d)", text)]
    assert len(called) > 8 and set(called) <= known
    assert {"agggen-mlflow", "agggen-s3"} <= set(aliases)


def names_of(service: dict[str, Any]) -> list[str]:
    networks = service["networks"]
    return [name for each in networks.values() for name in each["aliases"]] if isinstance(networks, dict) else []


# --- secrets -------------------------------------------------------------------------------------------------------


def test_secrets_are_files_outside_of_the_repository() -> None:
    for name, secret in COMPOSE["secrets"].items():
        assert secret == {"file": f"./state/secrets/{name}"}
    assert (FOLDER / ".gitignore").read_text(encoding="utf-8").split() == ["/state/"]


def test_each_secret_is_asked_for_and_each_that_is_asked_for_is_there() -> None:
    asked = [
        each if isinstance(each, str) else each["source"]
        for service in SERVICES.values()
        for each in service.get("secrets", ())
    ]
    assert set(asked) == set(COMPOSE["secrets"])


@each_service
def test_no_secret_stands_in_its_environment_or_command(name: str) -> None:
    service = SERVICES[name]
    assert isinstance(service.get("environment", {}), dict)
    for key, value in service.get("environment", {}).items():
        if re.search(r"PASSWORD|SECRET|TOKEN|KEY|CREDENTIAL", key):
            assert str(value).startswith("/run/secrets/"), f"{key} is no path of a secret"
        assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), f"{key} holds a password"
    words = " ".join(strings(service.get("command", [])) + strings(service.get("entrypoint", [])))
    assert not re.search(r"(?i)password|secret|token|auth-key", words)


def test_ray_asks_for_a_token_on_every_node() -> None:
    for name in ("ray-head", "ray-worker", "ray-worker-gpu"):
        environment = SERVICES[name]["environment"]
        assert environment["RAY_AUTH_MODE"] == "token"
        assert environment["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"
        assert "ray_token" in SERVICES[name]["secrets"]


# --- files ---------------------------------------------------------------------------------------------------------


@each_service
def test_every_file_that_it_names_is_there(name: str) -> None:
    service = SERVICES[name]
    for mount in service.get("volumes", ()):
        if mount["type"] == "bind" and not mount["source"].startswith("./state/"):
            assert (FOLDER / mount["source"]).exists(), mount["source"]
    if build := service.get("build"):
        context = (FOLDER / build["context"]).resolve()
        assert context == REPO
        stages = re.findall(r"^FROM .* AS (\S+)$", (context / build["dockerfile"]).read_text(), re.MULTILINE)
        assert build["target"] in stages


def test_the_workers_resources_are_within_their_limits() -> None:
    for name in ("ray-head", "ray-worker", "ray-worker-gpu"):
        service = SERVICES[name]
        command = " ".join(service["command"])
        cpus, store = (
            int(value[1]) if (value := re.search(rf"--{option}=(\d+)", command)) else -1
            for option in ("num-cpus", "object-store-memory")
        )
        assert 0 <= cpus <= float(service["deploy"]["resources"]["limits"]["cpus"])
        assert 0 < store <= int(service["shm_size"].removesuffix("gb")) << 30
        assert "--metrics-export-port=8080" in command


def test_ray_knows_every_option_that_its_nodes_are_started_with() -> None:
    scripts = pytest.importorskip("ray.scripts.scripts", reason="Ray is not installed: pip install -e '.[dev]'")
    known = {option for parameter in scripts.start.params for option in parameter.opts}
    for name in ("ray-head", "ray-worker", "ray-worker-gpu"):
        used = re.findall(r"\s(--[a-z-]+)", " ".join(SERVICES[name]["command"]))
        assert len(used) >= 6 and set(used) <= known


def test_prometheus_asks_services_that_are_there_for_what_the_rules_expect() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text(encoding="utf-8"))
    by_name = {job["job_name"]: job for job in config["scrape_configs"]}
    elsewhere = yaml.safe_load((REPO / "infra" / "monitoring" / "prometheus.yaml").read_text(encoding="utf-8"))
    assert set(by_name) == {job["job_name"] for job in elsewhere["scrape_configs"]}
    (found,) = by_name["ray"]["dns_sd_configs"]
    assert set(found["names"]) == {name for name in SERVICES if name.startswith("ray-")} and found["port"] == 8080
    mounted = {mount["target"] for mount in SERVICES["prometheus"]["volumes"]}
    assert {str(Path(rules).parent) for rules in config["rule_files"]} <= mounted


def test_prometheus_takes_its_configuration() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt install prometheus")
    command = [promtool, "check", "config", "--syntax-only", str(FOLDER / "prometheus.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
