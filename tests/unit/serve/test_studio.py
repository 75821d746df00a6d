"""The plan studio's page and examples, and the endpoint in one process."""

import re
import socket
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from agggen.corpora.elements import elements_records
from agggen.errors import ConfigError
from agggen_platform.client import Client
from agggen_platform.serving.config import HttpConfig, PortError, SecurityConfig, ServeConfig
from serve.api import STUDIO, api
from serve.handles import HandleEngine
from serve.local import local_app, running
from serve.planner import EXAMPLES, examples_of
from tests.processes import free_ports
from tests.unit.serve.http_calls import SILICON, Ask, StubEngine, issue


def test_the_page_and_its_resources_come_from_the_endpoint(ask: Ask) -> None:
    page = ask("/", "GET")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=|https?://", page.text)
    todo, loaded = re.findall(r'(?:src|href)="(studio/[^"]+)"', page.text), set[str]()
    while todo:
        name = todo.pop()
        if name not in loaded:
            answer = ask(f"/{name}", "GET")
            assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
            loaded.add(name)
            todo += [f"studio/{other}" for other in re.findall(r'from "\./([^"]+)"', answer.text)]
    assert loaded == {f"studio/{path.name}" for path in STUDIO.iterdir()} - {"studio/index.html"}


def test_the_policy_forbids_markup_scripts_and_other_hosts(ask: Ask) -> None:
    policy = ask("/", "GET").headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} < set(policy)
    assert "require-trusted-types-for 'script'" in policy and "unsafe" not in " ".join(policy)
    unchanged = ask("/", "GET", headers={"If-None-Match": ask("/", "GET").headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_scripts_neither_create_html_from_strings_nor_store_keys_beyond_the_tab() -> None:
    for path in STUDIO.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        unsafe = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
        kept = set(re.findall(r"localStorage\.\w+\(([^,)]+)", text))
        assert not unsafe and kept <= {'"agggen-theme"'}, path


def test_the_page_can_be_turned_off_and_needs_no_key(engine: HandleEngine, tmp_path: Path) -> None:
    off = Ask(api(engine, ServeConfig("toy", studio=False)))
    assert [off(address, "GET").status_code for address in ("/", "/studio/main.js", "/readyz")] == [404, 404, 200]
    issue(tmp_path / "keys", "ann")
    keyed = Ask(api(engine, ServeConfig("toy", security=SecurityConfig(keys_file=str(tmp_path / "keys")))))
    assert [keyed(address, "GET").status_code for address in ("/", "/v1/model", "/v1/examples")] == [200, 401, 401]


def test_examples_are_of_the_test_split_of_the_bundles_corpus() -> None:
    examples = examples_of({"corpus": {"name": "elements", "train": "train", "dev": "dev", "test": "test"}})
    ids = {record.id for record in elements_records("test")}
    assert (examples["corpus"], examples["split"]) == ("elements", "test")
    assert 20 < len(examples["records"]) <= EXAMPLES and {record["id"] for record in examples["records"]} < ids


@pytest.mark.parametrize("name", ["private.csv", "/etc/passwd", "../elements", None, ["elements"]])
def test_examples_are_never_read_from_a_file_that_a_bundle_names(name: object) -> None:
    corpora = [{"name": name, "test": "test"}, {"name": "elements", "test": name}, name]
    for config in ({}, *({"corpus": corpus} for corpus in corpora)):
        assert examples_of(config) == {"corpus": "", "split": "", "records": []}


def test_an_endpoint_in_one_process_answers_and_frees_its_port(serve_config: ServeConfig) -> None:
    config = ServeConfig("elements", http=HttpConfig(port=free_ports(1)[0]))
    with running(local_app(config), config) as url, Client(url) as client:
        model = client.model()
        assert model["address"] == "elements"
        (answer,) = client.check([SILICON | {"text": "Silicon, with the symbol Si, is a metalloid."}])
        assert answer["status"] == "ok" and answer["faults"] == []
        with (
            pytest.raises(PortError, match=r"cannot listen at \S+ \([\w ]+\): choose another http\.port"),
            running(None, config),
        ):
            pass
    with socket.create_server(("127.0.0.1", config.http.port)):
        pass  # the port is free again


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "localhost"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("[::1]", "[::1]")]
)
def test_the_printed_address_of_an_endpoint_can_be_opened(host: str, shown: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    config = ServeConfig("elements", http=HttpConfig(host, free_ports(1)[0]))
    with running(FastAPI(), config) as url:
        assert url == f"http://{shown}:{config.http.port}"
        assert httpx.get(f"{url}/openapi.json").status_code == 200


def test_a_second_model_answers_requests_that_name_it(
    engine: HandleEngine, serve_config: ServeConfig, stub: StubEngine
) -> None:
    ask = Ask(api(engine, serve_config, compared=stub))
    first = ask("/v1/model", "GET").json()
    second = ask("/v1/model", "GET", headers={"X-Model": first["compared"]["fingerprint"]}).json()
    assert first["compared"] == {name: second[name] for name in ("address", "fingerprint")}
    for model in (first, second):
        answer = ask("/v1/plan", json={"records": [SILICON]}, headers={"X-Model": model["fingerprint"]}).json()
        assert answer["answers"][0]["model"] == model["fingerprint"]
    refused = ask("/v1/plan", json={"records": [SILICON]}, headers={"X-Model": "0"})
    assert (refused.status_code, refused.json()["field"]) == (422, "X-Model")
    assert Ask(api(engine, serve_config))("/v1/model", "GET").json()["compared"] is None


def test_a_bundle_is_not_compared_with_itself(serve_config: ServeConfig) -> None:
    with pytest.raises(ConfigError, match="choose another bundle"):
        local_app(serve_config, serve_config.bundle)
