"""What must not be in the product's sources, beside the pickles, shells and eval that `test_house.py` looks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.test_house import REPO, SOURCES, forbidden, modules, name_of

INFRA = REPO / "infra"
ALLOWED: dict[str, list[str]] = {}
"""What a file may have all the same, and why it may."""

_ATTRIBUTES = {
    "yaml": {"load", "load_all", "unsafe_load", "full_load", "Loader", "UnsafeLoader", "FullLoader"},
    "ssl": {"_create_unverified_context", "CERT_NONE"},
    "tempfile": {"mktemp"},
    "numpy": {"load"},
    "np": {"load"},
    "pd": {"read_pickle"},
    "pandas": {"read_pickle"},
}
_SWITCHES = {"verify": False, "check_hostname": False, "trust_remote_code": True, "weights_only": False}
_CALLS = {"extractall", "load_model"}


def unsafe(tree: ast.AST) -> Iterator[str]:
    """Names of what reads other than plain data, trusts any certificate, or writes where a stranger says."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in _ATTRIBUTES.get(module, ()):
                yield f"{module}.{name}"
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{one.name}" for one in names if one.name in _ATTRIBUTES.get(module, ()))
            case ast.keyword(arg=str(name), value=ast.Constant(value=bool(value))) if _SWITCHES.get(name) is value:
                yield f"{name}={value}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in _CALLS:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="hashlib"), attr="md5" | "sha1" as name)) if not any(
                keyword.arg == "usedforsecurity" for keyword in node.keywords
            ):
                yield f"hashlib.{name}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("yaml.load(text, Loader=yaml.Loader)", {"yaml.load", "yaml.Loader"}),
        ("from yaml import unsafe_load", {"yaml.unsafe_load"}),
        ("httpx.get(url, verify=False)", {"verify=False"}),
        ("ssl._create_unverified_context()", {"ssl._create_unverified_context"}),
        ("archive.extractall(folder)", {"extractall"}),
        ("mlflow.pyfunc.load_model(uri)", {"load_model"}),
        ("hashlib.md5(content)", {"hashlib.md5"}),
        ("yaml.safe_load(t); httpx.get(u, verify=True); hashlib.md5(c, usedforsecurity=False)", set()),
    ],
)
def test_the_search_finds_it(code: str, found: set[str]) -> None:
    assert set(unsafe(ast.parse(code))) == found


def found_in(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [*unsafe(tree), *(forbidden(tree) if path.is_relative_to(INFRA) else ())]


def test_the_sources_have_nothing_of_it() -> None:
    found = {name_of(path): found_in(path) for path in modules(*SOURCES, INFRA)}
    assert len(found) > 200
    assert {name: names for name, names in found.items() if set(names) - set(ALLOWED.get(name, ()))} == {}


def test_what_is_allowed_is_there() -> None:
    for name, allowed in ALLOWED.items():
        assert set(allowed) <= set(found_in(REPO / name)), name


_OTHERS = {".py", ".pyc", ".md", ".safetensors"}  # what is said about a switch is no switch
_SWITCHED_OFF = re.compile(
    r"RAY_DATA_AUTOLOAD_\w+|MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE|--disable-security-middleware|PYTHONHTTPSVERIFY"
    r"|allowed-hosts[= '\",\[]+\*|--insecure\b|--no-check-certificate|\bcurl [^|\n]*-\w*k\b"
    r"|RAY_AUTH_MODE[\"']?(?:\s*[:=,]|(?=\s*\n))\s*(?:value\s*:\s*)?[\"']?(?!token\b|value\b)\w+"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RAY_DATA_AUTOLOAD_CLOUDPICKLE_TENSOR_METADATA=1", True),
        ("RAY_AUTH_MODE: disabled", True),
        ('"RAY_AUTH_MODE": "disabled"', True),
        ("{name: RAY_AUTH_MODE, value: disabled}", True),
        ("- name: RAY_AUTH_MODE\n  value: disabled", True),
        ("- name: RAY_AUTH_MODE\n  value: token", False),
        ("RAY_AUTH_MODE=token", False),
        ("{name: RAY_AUTH_MODE, value: token}", False),
        ("--allowed-hosts '*'", True),
        ("--allowed-hosts localhost:5000", False),
        ("curl -fsSk https://x", True),
        ("curl -fsS https://x", False),
    ],
)
def test_the_search_for_protection_that_is_switched_off_finds_it(text: str, found: bool) -> None:
    assert bool(_SWITCHED_OFF.search(text)) == found


def test_nothing_that_is_deployed_switches_protection_off() -> None:
    """Scripts, manifests and settings; what Python starts is tested by starting it."""
    folders = [*SOURCES, INFRA, REPO / ".ci"]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix not in _OTHERS]
    found = []
    for path in (*files, REPO / "Makefile"):
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name_of(path)}: {match.group()}" for match in _SWITCHED_OFF.finditer(text)]
    assert len(files) > 20
    assert found == []
