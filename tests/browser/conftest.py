"""Chromium, the page object of the plan studio, and an endpoint in this process that can delay or refuse requests."""

import asyncio
import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agggen.corpora.elements import elements_records
from agggen_platform.serving.config import serve_settings
from serve.local import local_app, running
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
                item.add_marker(pytest.mark.skip(reason="no Chromium: apt install chromium"))


RECORD = [
    ["Hydrogen", "stateAtRoomTemperature", "gas"],
    ["Hydrogen", "discoveryYear", "1766"],
    ["Hydrogen", "meltingPoint", "14 K"],
    ["Hydrogen", "category", "nonmetal"],
]
"""A record of the bundle's corpus; `LINK` opens it."""
LINK = "/#r=" + base64.urlsafe_b64encode(json.dumps({"t": RECORD}).encode()).decode().rstrip("=")
PLAN = "[category] [meltingPoint] [discoveryYear] [stateAtRoomTemperature]"
"""A plan of RECORD."""


class Studio:
    """An open page. `errors`: script errors, console errors, and requests to other hosts."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._record_message)
        page.on("request", self._record_request)

    def _record_message(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _record_request(self, request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith("blob:"):
            self.errors.append(f"requested {request.url}")

    def ready(self) -> None:
        """Waits until the text follows the plan and has been checked."""
        self.state("ready")
        self.page.locator("#words:not(.stale) .fact").first.wait_for()
        self.page.locator("#checks .verdict").wait_for()

    def state(self, name: str) -> None:
        """Waits until the page is in the state `name`, such as ready, working or offline."""
        self.page.locator(f"body[data-state={name}]").wait_for()

    @property
    def text(self) -> str:
        """The text, without the letters of its groups."""
        return str(
            self.page.locator("#words .text").evaluate(
                "node => { const copy = node.cloneNode(true);"
                " copy.querySelectorAll('sup, .hidden').forEach((e) => e.remove()); return copy.textContent; }"
            )
        )

    @property
    def plan(self) -> str:
        return str(self.page.locator("#plantext").input_value())

    @property
    def checks(self) -> list[str]:
        return [item.strip() for item in self.page.locator("#checks li").all_inner_texts()]

    @property
    def triples(self) -> list[list[str]]:
        rows = self.page.locator("#table .triples > li").all()
        return [[field.input_value() for field in row.locator("input").all()] for row in rows]

    def wait_for_announcement(self, words: str) -> None:
        """Waits until a live region (for screen readers) contains `words`."""
        self.page.locator("#live-a, #live-b").filter(has_text=words).first.wait_for(state="attached")

    def chip(self, name: str) -> Any:
        label = self.page.locator(".name", has_text=re.compile(f"^{name}$"))
        return self.page.locator("#board .chip").filter(has=label)

    def group(self, number: int) -> Any:
        return self.page.locator("#board .group").nth(number)

    @property
    def focused(self) -> str:
        return str(self.page.evaluate("() => document.activeElement.getAttribute('data-key') ?? ''"))

    def drag(self, source: Any, x: float, y: float, drop: bool = True) -> None:
        """Drags an element to a point of the window (pixels); without `drop`, keeps the mouse button pressed."""
        box = source.bounding_box()
        mouse = self.page.mouse
        mouse.move(box["x"] + 12, box["y"] + box["height"] / 2)
        mouse.down()
        mouse.move((box["x"] + x) / 2, (box["y"] + y) / 2, steps=4)
        mouse.move(x, y, steps=4)
        if drop:
            mouse.up()

    def click(self, button: str) -> None:
        self.page.get_by_role("button", name=button).click()
        self.ready()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def load(self, pasted: str, ready: bool = True) -> None:
        """Pastes records and uses the first one; with `ready`, waits for its text."""
        self.page.get_by_role("button", name="Paste", exact=True).click()
        self.page.get_by_label("Paste records").fill(pasted)
        self.page.get_by_role("button", name="Use these").click()
        if ready:
            self.ready()

    def enter_plan(self, plan: str) -> None:
        self.page.locator("#plantext").fill(plan)
        self.page.locator("#plantext").blur()
        self.ready()

    def tab(self, name: str) -> Any:
        self.page.get_by_role("tab", name=name).click()
        return self.page.locator("#panel")

    def check(self, text: str) -> Any:
        """Checks `text` on the tab "Check any text"; returns the panel with the verdict."""
        panel = self.tab("Check any text")
        self.page.locator("#anytext").fill(text)
        self.page.locator("#check").click()
        panel.locator(".verdict").wait_for()
        return panel


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
def faults(_endpoint: Faults) -> Faults:
    _endpoint.reset()
    return _endpoint


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
