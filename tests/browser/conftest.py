"""Chromium and an endpoint in this process with the shipped bundle, which can be made to delay or refuse requests."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agggen.corpora.elements import elements_records
from agggen_platform.serving.config import serve_settings
from serve.local import local_app, running
from tests.browser.studio import LINK, Studio
from tests.processes import free_ports
from tests.tiny_models import save_tiny_bundle

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
PICTURES = "AGGGEN_PICTURES"
"""Environment variable with the folder for screenshots of the page's main states."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="there is no Chromium: apt install chromium"))


class Faults:
    """ASGI middleware in front of the endpoint that delays or refuses requests on demand."""

    def __init__(self, app: Any) -> None:
        self.app, self.url = app, ""
        self.reset()

    def reset(self) -> None:
        self.delays: dict[str, list[float]] = {}
        """Delays of the next requests by path, in seconds."""
        self.refusals: dict[str, list[tuple[int, dict[str, str]]]] = {}
        """Status and headers of the next refusals by path."""
        self.requested_paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            self.requested_paths.append(path)
            if waits := self.delays.get(path):
                await asyncio.sleep(waits.pop(0))
            if refusals := self.refusals.get(path):
                status, headers = refusals.pop(0)
                lines = [(name.encode(), value.encode()) for name, value in headers.items()]
                await send({"type": "http.response.start", "status": status, "headers": lines})
                await send({"type": "http.response.body", "body": b"{}"})
                return
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def _endpoint() -> Iterator[Faults]:
    config = serve_settings("elements", [f"http.port={free_ports(1)[0]}"])
    app = Faults(local_app(config))
    with running(app, config) as app.url:
        yield app


@pytest.fixture(scope="session")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an endpoint with a second bundle for comparison, whose weights are random."""
    second_bundle = save_tiny_bundle(tmp_path_factory.mktemp("other") / "bundle", list(elements_records("dev")), 5)
    config = serve_settings("elements", [f"http.port={free_ports(1)[0]}"])
    with running(local_app(config, str(second_bundle)), config) as url:
        yield url


@pytest.fixture
def faults(_endpoint: Faults) -> Iterator[Faults]:
    _endpoint.reset()
    yield _endpoint
    _endpoint.reset()


@pytest.fixture
def url(faults: Faults) -> str:
    return faults.url


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'agggen[dev]'")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Any]:
    """Opens an address in a new context, ``visit(url, **context)``; at the end checks that no script failed."""
    visits: list[Studio] = []

    def open_studio(address: str, ready: bool = True, **context: Any) -> Studio:
        settings = {"viewport": {"width": 1280, "height": 900}, "permissions": ["clipboard-read", "clipboard-write"]}
        page = chromium.new_context(**{**settings, **context}).new_page()
        page.set_default_timeout(120_000)
        studio = Studio(page, address)
        visits.append(studio)
        page.goto(address)
        if ready:
            studio.ready()
        return studio

    yield open_studio
    for studio in visits:
        studio.page.context.close()
        assert studio.errors == []


@pytest.fixture
def studio(visit: Any, url: str) -> Studio:
    return visit(url + LINK)


@pytest.fixture
def picture() -> Any:
    """Saves a screenshot of the page, ``picture(studio, "name")``, if AGGGEN_PICTURES is set."""
    folder = os.environ.get(PICTURES)

    def take(studio: Studio, name: str, full_page: bool = True) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            studio.page.evaluate("() => window.scrollTo(0, 0)")
            studio.page.screenshot(path=Path(folder) / f"{name}.png", full_page=full_page)

    return take
