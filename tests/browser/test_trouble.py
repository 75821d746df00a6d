"""The endpoint is slow, busy, unreachable or requires a key: the page shows this and keeps the user's changes."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agggen_platform.serving.config import serve_settings
from agggen_platform.serving.keys import add_key, new_key
from serve.local import local_app, running
from tests.browser.conftest import Faults, Studio
from tests.processes import Running, free_ports

GENERATE = "/v1/generate"


def merge(studio: Studio) -> None:
    studio.page.get_by_role("button", name="Merge group A with B").click()


def banner(studio: Studio) -> str:
    return str(studio.page.locator("#banner").inner_text())


def test_a_response_to_an_older_plan_never_overwrites_a_newer_one(studio: Studio, faults: Faults) -> None:
    faults.delays[GENERATE] = [1.5, 0]
    groups = studio.plan.count("[")
    merge(studio)
    merge(studio)
    studio.ready()
    plan, text = studio.plan, studio.text
    assert plan.count("[") == groups - 2
    studio.page.wait_for_timeout(1800)
    assert (studio.plan, studio.text) == (plan, text)
    studio.state("ready")


def test_the_page_says_that_the_endpoint_is_slow_and_dims_the_old_text(studio: Studio, faults: Faults) -> None:
    faults.delays[GENERATE] = [2.5]
    before = studio.text
    merge(studio)
    studio.page.locator("#words.stale").wait_for()
    assert studio.text == before and studio.page.locator("#words").get_attribute("aria-busy") == "true"
    studio.wait_for_announcement("Still writing")
    studio.ready()
    assert studio.text != before


def test_the_page_shows_that_it_is_loading(visit: Any, url: str, faults: Faults) -> None:
    faults.delays["/v1/model"] = [1.5]
    studio = visit(url, ready=False)
    studio.page.locator("#board .loading").wait_for()
    studio.ready()


def test_a_slow_check_leaves_the_page_ready(studio: Studio, faults: Faults) -> None:
    faults.delays["/v1/check"] = [2.5]
    merge(studio)
    studio.page.wait_for_timeout(2000)
    studio.state("ready")
    studio.ready()


def test_a_busy_endpoint_is_retried(studio: Studio, faults: Faults) -> None:
    faults.refusals[GENERATE] = [(429, {"retry-after": "1"})]
    merge(studio)
    studio.state("busy")
    assert "Next try in 1 s" in banner(studio)
    studio.ready()
    assert not banner(studio)


def test_an_unavailable_endpoint_is_retried_on_demand_and_the_old_text_labelled(studio: Studio, faults: Faults) -> None:
    faults.refusals[GENERATE] = [(503, {"retry-after": "15"})]
    before = studio.text
    studio.page.get_by_role("button", name="Next record").click()
    studio.state("offline")
    studio.wait_for_announcement("No answer")
    words = studio.page.locator("#words")
    assert studio.text == before and "of the previous facts" in words.inner_text()
    studio.click("Try again now")
    assert studio.text != before and "of the previous facts" not in words.inner_text()


def test_the_page_continues_when_a_killed_endpoint_comes_back(visit: Any, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    command = ["-m", "agggen_platform.cli.main", "studio", "--no-browser", f"http.port={port}"]
    with Running(command, tmp_path) as process:
        process.wait_until(lambda: "Ready" in process.output(), "endpoint")
        studio = visit(f"http://127.0.0.1:{port}/")
        os.kill(process.process.pid, signal.SIGSTOP)
        merge(studio)
        studio.state("working")
        os.kill(process.process.pid, signal.SIGKILL)
        process.finish()
    studio.state("offline")
    plan = studio.plan
    merge(studio)  # the endpoint is not running
    assert studio.plan.count("[") == plan.count("[") - 1
    plan = studio.plan
    with Running(command, tmp_path) as process:
        studio.ready()
        assert studio.plan == plan and not banner(studio)
        studio.page.reload()
        studio.ready()
        assert studio.plan == plan  # from the tab's storage
        process.signal(signal.SIGTERM)
        assert process.finish() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/v1/model", (503, {})),
        # Regression: the page announced a retry, but repeated only the request for the model.
        ("/v1/examples", (429, {"retry-after": "1"})),
    ],
)
def test_requests_that_are_refused_while_the_page_loads_are_repeated(
    visit: Any, url: str, faults: Faults, path: str, refusal: tuple[int, dict[str, str]]
) -> None:
    faults.refusals[path] = [refusal]
    assert len(visit(url).triples) == 5, "the first example is not shown"
    assert faults.requested_paths.count(path) > 1


def test_the_page_asks_for_a_key_and_keeps_it_in_the_tab(visit: Any, tmp_path: Path) -> None:
    secret, key = new_key("ann")
    add_key(tmp_path / "keys", key)
    config = serve_settings("elements", [f"http.port={free_ports(1)[0]}", f"security.keys_file={tmp_path / 'keys'}"])
    with running(local_app(config), config) as url:
        studio = visit(url, ready=False)
        studio.state("key")
        assert "Authorization" not in banner(studio)  # a hint for programs only
        studio.page.get_by_label("Key", exact=True).fill("wrong")
        studio.page.get_by_role("button", name="Use it").click()
        studio.page.locator("#banner", has_text="not valid").wait_for()
        studio.page.get_by_label("Key", exact=True).fill(secret)
        studio.press("Enter")
        studio.ready()
        panel = studio.tab("Share")
        shared = " ".join(area.input_value() for area in panel.locator("textarea").all())
        assert secret not in shared and "$AGGGEN_API_KEY" in shared and secret not in studio.page.url
        assert secret not in studio.page.evaluate("() => JSON.stringify(localStorage) + document.cookie")
        studio.page.reload()
        studio.ready()
        second_tab = visit(url, ready=False)
        second_tab.state("key")


def test_the_page_works_where_the_browser_forbids_storage(visit: Any, url: str) -> None:
    """Regression: reading the theme from localStorage ended the page's script."""
    studio = visit("about:blank", ready=False)
    forbid = "{ get() { throw new DOMException('Access is denied', 'SecurityError'); } }"
    studio.page.add_init_script(
        f"for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, {forbid})"
    )
    studio.url = url
    studio.page.goto(url)
    studio.ready()
    studio.page.locator("#theme").click()
    assert studio.page.locator("#theme").inner_text() == "Light theme"
