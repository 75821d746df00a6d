"""Page object of the plan studio."""

import base64
import json
import re
from typing import Any
from urllib.parse import urlsplit

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
