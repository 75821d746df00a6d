"""Accessibility: WCAG 2.2 AA by axe-core, keyboard operation, narrow screens; screenshots of the main states."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import LINK, PLAN, Faults, Studio

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
UNKNOWN_PREDICATE = [["Silicon", "symbol", "Si"], ["Silicon", "flavour", "salty"], ["Silicon", "category", "metalloid"]]


def violations(studio: Studio) -> list[tuple[str, list[str]]]:
    """The rules that the page violates, with the elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    answer = axe.run(studio.page, options={"runOnly": {"type": "tag", "values": RULES}})
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in answer.response["violations"]]


def unknown_predicate(studio: Studio) -> None:
    studio.load(json.dumps(UNKNOWN_PREDICATE))
    studio.check("Silicon (Si) was found in 1811 in Paris.")


def own_plan(studio: Studio) -> None:
    studio.enter_plan(PLAN)
    studio.click("Merge group A with B")
    studio.chip("category").focus()
    studio.press("m")
    studio.page.get_by_role("group", name="Pin, in every plan").get_by_role("button", name="First").click()
    studio.ready()
    studio.tab("Compare").get_by_role("button", name="Save this plan").click()
    studio.click("Merge group A with B")


def tab(name: str) -> Callable[[Studio], None]:
    def act(studio: Studio) -> None:
        panel = studio.tab(name)
        panel.locator(".card, textarea, .option").first.wait_for()

    return act


def menu(studio: Studio) -> None:
    studio.chip("category").click()
    studio.page.get_by_role("dialog").wait_for()


def paste(studio: Studio) -> None:
    studio.page.get_by_role("button", name="Paste", exact=True).click()
    studio.page.get_by_role("button", name="Use these").click()


def empty(studio: Studio) -> None:
    studio.load("Silicon | symbol | Si")
    studio.page.locator("#sheet").evaluate("(sheet) => { sheet.open = true; }")
    studio.page.get_by_role("button", name="Remove fact 1").click()


def two_models_compared(studio: Studio) -> None:
    studio.tab("Compare").locator(".sides .verdict").nth(1).wait_for()


STATES = {
    "start": tab("Other plans"),
    "texts": tab("Other texts"),
    "odd": unknown_predicate,
    "own-plan": own_plan,
    "corrections": tab("Corrections"),
    "share": tab("Share"),
    "menu": menu,
    "paste": paste,
    "empty": empty,
    "two-models": two_models_compared,
}


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("theme", ["light", "dark", "phone"])
def test_axe_finds_no_violation(visit: Any, url: str, two_models: str, picture: Any, name: str, theme: str) -> None:
    context = {"viewport": {"width": 360, "height": 740}} if theme == "phone" else {"color_scheme": theme}
    address = two_models if name == "two-models" else url
    studio = visit(address + LINK, reduced_motion="reduce", **context)
    STATES[name](studio)
    picture(studio, f"{name}-{theme}")
    assert violations(studio) == []
    width = studio.page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= studio.page.viewport_size["width"], "the page scrolls horizontally"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_after_errors(visit: Any, url: str, faults: Faults, picture: Any, theme: str) -> None:
    studio = visit(url, color_scheme=theme, reduced_motion="reduce")
    for state, status in {"offline": 503, "key": 401, "busy": 429}.items():
        faults.refusals["/v1/generate"] = [(status, {"retry-after": "20"})]
        studio.page.get_by_role("button", name="Next record").click()
        studio.state(state)
        picture(studio, f"{state}-{theme}", full_page=False)
        assert violations(studio) == []
        faults.reset()


def focus_by_tab(studio: Studio, selector: str, keys: str = "Tab") -> None:
    for _ in range(120):
        if studio.page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
        studio.press(keys)
    raise AssertionError(f"Tab does not reach {selector}")


def test_all_tasks_are_possible_by_keyboard(studio: Studio) -> None:
    def act(selector: str, *keys: str) -> None:
        focus_by_tab(studio, selector)
        studio.press(*keys)
        studio.ready()

    act("#source select", "ArrowDown")
    picked = studio.triples
    focus_by_tab(studio, "[data-key=add]")
    studio.press("Enter", *"symbol", "Tab", "H")
    studio.ready()
    assert studio.triples == [*picked, ["Hydrogen", "symbol", "H"]]
    act("#level", "ArrowLeft")
    before = studio.plan
    act(".chip", "Enter", "ArrowDown", "ArrowDown", "ArrowDown", "Enter")
    assert studio.plan != before
    studio.press("m")
    act("dialog [aria-label^=Pin] button", "Enter")
    assert studio.page.locator("#pins li").count() == 1 and studio.focused.startswith("chip-")
    act("#pins button", "Enter")
    act("[role=tab][aria-selected=true]", "ArrowRight", "ArrowRight")
    act("#anytext", *"Hydrogen")
    focus_by_tab(studio, "#check")
    studio.press("Enter")
    studio.page.locator("#aligned .verdict").wait_for()
    focus_by_tab(studio, "[role=tab][aria-selected=true]", "Shift+Tab")
    studio.press("End")
    focus_by_tab(studio, "[data-key=copy-link]")
    studio.press("Enter")
    studio.wait_for_announcement("Copied")
    assert "#r=" in studio.page.evaluate("() => navigator.clipboard.readText()")


def test_no_information_is_given_by_colour_alone(studio: Studio) -> None:
    studio.enter_plan(PLAN)
    letters = studio.page.locator("#board .handle").all_inner_texts()
    above_words = studio.page.locator("#words sup").evaluate_all("(tags) => tags.map((tag) => tag.firstChild.data)")
    assert letters == above_words == ["A", "B", "C", "D"]
    assert sorted(studio.page.locator("#table .badge").all_inner_texts()) == letters
    for item in studio.page.locator("#checks li:has(.sign)").all():
        assert item.locator(".sign").inner_text() and len(item.inner_text()) > 3
    assert all(studio.page.locator("#checks li:not(:has(.sign))").all_inner_texts())


def test_the_theme_is_kept_after_a_reload(studio: Studio) -> None:
    def background() -> str:
        return str(studio.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))

    light, button = background(), studio.page.locator("#theme")
    button.click()
    button.click()
    assert button.inner_text() == "Dark theme" and background() != light
    studio.page.reload()
    studio.ready()
    assert background() != light
