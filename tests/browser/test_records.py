"""Records are pasted and edited, and may contain any characters."""

import json

import pytest

from tests.browser.conftest import Studio

TRIPLES = [["Silicon", "symbol", "Si"], ["Silicon", "category", "metalloid"]]
HOSTILE = [
    ["<img src=x onerror=\"document.title='gone'\">", "symbol", "<script>document.title='gone'</script>"],
    ["<img src=x onerror=\"document.title='gone'\">", "category", "\"'`${1+1}</textarea></p>&lt;"],
    ["<img src=x onerror=\"document.title='gone'\">", "javascript:alert(1)", "a\u202eb{{x}}%00"],
]


@pytest.mark.parametrize(
    "pasted",
    [
        "subject,predicate,object\nSilicon,symbol,Si\nSilicon,category,metalloid\n",
        "name,symbol,category\nSilicon,Si,metalloid\n",
        'id\tname\tsymbol\tcategory\n7\tSilicon\t"Si"\tmetalloid',
        json.dumps({"records": [{"triples": TRIPLES}]}),
        json.dumps([{"subject": "x", "triples": TRIPLES}]),
        json.dumps({"name": "Silicon", "symbol": "Si", "category": "metalloid", "text": "Silicon."}),
        '{"id": "a", "triples": ' + json.dumps(TRIPLES) + '}\n{"id": "b", "name": "Iron", "symbol": "Fe"}\n',
        json.dumps(TRIPLES),
        "Silicon | symbol | Si\nSilicon | category | metalloid",
    ],
)
def test_records_are_pasted_as_csv_json_or_lines(studio: Studio, pasted: str) -> None:
    studio.load(pasted)
    assert studio.triples == TRIPLES and "Si" in studio.text
    assert studio.focused == "record"


@pytest.mark.parametrize(
    ("pasted", "problem"),
    [
        ("", "There are no records"),
        ('{"triples": [["a", "b"]]}', "fact 1"),
        ('{"triples": ', "not JSON"),
        ('{"id": 1}\n{"id": ', "Line 2"),
        ("only one line", "neither JSON nor a table"),
        ("a,b\n1,2,3", "Row 2"),
        ('a,b\n"1,2', "is not closed"),
    ],
)
def test_the_error_for_an_unreadable_record_names_its_place(studio: Studio, pasted: str, problem: str) -> None:
    before = studio.triples
    studio.load(pasted, ready=False)
    assert problem in studio.page.locator("#paste-error").inner_text()
    assert studio.page.get_by_label("Paste records").input_value() == pasted and studio.triples == before


def test_a_value_is_typed_and_the_text_follows(studio: Studio) -> None:
    studio.load("Silicon | symbol | Si")
    field = studio.page.get_by_label("value of fact 1")
    field.press("End")
    field.press_sequentially("xyz", delay=20)
    studio.page.locator("#words .mention", has_text="Sixyz").wait_for()
    assert studio.focused == "0.2"  # typing is not interrupted
    studio.page.get_by_role("button", name="Undo").click()
    studio.page.locator("#words .mention", has_text="Si").wait_for()
    assert studio.triples == [["Silicon", "symbol", "Si"]]  # typing is one step


def test_facts_are_added_and_removed(studio: Studio) -> None:
    studio.load("Silicon | symbol | Si")
    studio.page.get_by_role("button", name="Add a fact").click()
    assert studio.focused == "1.1" and studio.triples[1] == ["Silicon", "", ""]
    assert "Fact 2 lacks a predicate" in studio.page.locator("#board").inner_text()
    studio.page.keyboard.type("categry")
    note = studio.page.locator("#note-1")
    assert "unknown predicate" in note.inner_text()
    studio.page.get_by_label("predicate of fact 2").fill("category")
    studio.page.get_by_label("value of fact 2").fill("metalloid")
    studio.ready()
    assert not note.inner_text() and "metalloid" in studio.text
    studio.click("Remove fact 1")
    assert studio.plan == "[category]"
    studio.page.get_by_role("button", name="Remove fact 1").click()
    assert "There are no facts yet" in studio.page.locator("#board").inner_text()
    assert studio.page.locator("#panel").inner_text() == "There are no facts yet."


def test_hostile_values_are_text_everywhere(studio: Studio) -> None:
    studio.load(json.dumps({"triples": HOSTILE}))
    for name in ("Other plans", "Other texts", "Compare", "Corrections", "Share"):
        studio.tab(name)
    studio.check(HOSTILE[0][2] + HOSTILE[0][0])
    assert studio.page.locator("img, main script, iframe").count() == 0
    assert studio.page.title() == "Plan studio - agggen"
    assert studio.triples == HOSTILE
    assert HOSTILE[0][2] in studio.text and studio.page.locator("#board .chip").count() == 3


def test_values_from_right_to_left_are_shown_in_their_own_direction(studio: Studio) -> None:
    name = "\u05d9\u05e2\u05e7\u05d1 \u05d1\u05e8\u05e6\u05dc\u05d9\u05d5\u05e1"
    subject = "\u0633\u064a\u0644\u064a\u0643\u0648\u0646"
    studio.load(json.dumps([["Silicon", "discoverer", name], [subject, "symbol", "Si"]]))
    assert name in studio.text
    field, value = studio.page.get_by_label("value of fact 1"), studio.chip("discoverer").locator("bdi.value")
    assert field.evaluate("(node) => getComputedStyle(node).direction") == "rtl"
    assert value.evaluate("(node) => getComputedStyle(node).unicodeBidi") == "isolate"


def test_mentions_are_marked_correctly_beside_characters_outside_the_bmp(studio: Studio) -> None:
    subject, value = "\U0001d543\U0001d552\U0001d553", "\U0001d54a\U0001d54b"
    studio.load(json.dumps([[subject, "symbol", value], [subject, "category", "metalloid"]]))
    assert {value, "metalloid"} <= set(studio.page.locator("#words .mention").all_inner_texts())


def test_24_triples_are_planned_and_25_refused_but_kept(studio: Studio) -> None:
    rows = [["Silicon", f"property {i}", f"value {i}"] for i in range(18)]
    names = ["symbol", "category", "discoveryYear", "meltingPoint", "discoveryPlace", "standardAtomicWeight"]
    studio.load(json.dumps(rows + [["Silicon", name, f"v{i}"] for i, name in enumerate(names)]))
    assert studio.page.locator("#board .chip").count() == 24 and studio.text.count("value") >= 18
    assert studio.page.locator("#board .badge", has_text="G").count() == 1  # a letter, although there are six colours
    studio.page.get_by_role("button", name="Add a fact").click()
    studio.page.get_by_label("predicate of fact 25").fill("one more")
    studio.page.get_by_label("value of fact 25").fill("too many")
    studio.state("refused")
    assert "at most 24" in studio.page.locator("#banner").inner_text() and len(studio.triples) == 25
    studio.click("Remove fact 25")


def test_a_text_above_the_limit_is_kept_and_the_page_names_the_limit(studio: Studio) -> None:
    studio.tab("Check any text")
    area, check = studio.page.locator("#anytext"), studio.page.locator("#check")
    area.fill("Hydrogen is a gas. " * 526 + "x" * 6)
    assert "10,000 characters: at most 2,000 are allowed" in studio.page.locator("#anycount").inner_text()
    assert check.is_disabled()
    studio.tab("Share")
    studio.tab("Check any text")
    assert len(area.input_value()) == 10_000
    studio.check("Hydrogen is a gas.")
