"""The tabs: other plans and texts, checking of any text, comparison, corrections, sharing."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from agggen.datasets import load_records
from tests.browser.conftest import Studio


def test_a_click_selects_another_plan(studio: Studio) -> None:
    options = studio.page.locator("#panel .option")
    options.nth(7).wait_for()
    shares = [float(text.split()[0]) for text in studio.page.locator("#panel .share-of").all_inner_texts()]
    assert shares == sorted(shares, reverse=True) and len(shares) == 8
    assert studio.page.locator("#panel .option[aria-pressed=true]").count() == 1
    options.first.click()
    studio.ready()
    assert options.first.get_attribute("aria-label").startswith(f"Take the plan {studio.plan}, probability")
    assert options.first.get_attribute("aria-pressed") == "true"
    cost = studio.page.locator("#numbers div").filter(has_text="Your change").locator("dd").inner_text()
    assert cost == "+0.00"  # the most probable plan


def test_best_and_sampled_texts_are_shown_and_their_plans_selected(studio: Studio) -> None:
    panel = studio.tab("Other texts")
    cards = panel.locator(".card")
    cards.nth(4).wait_for()
    assert "log p" in cards.first.inner_text() and cards.first.locator(".fact").count() >= 2
    panel.get_by_role("button", name="Sampled").click()
    panel.get_by_role("button", name="Sample again").wait_for()
    first = cards.all_inner_texts()
    assert len(first) >= 2 and "Texts of plans sampled" in panel.inner_text()
    panel.get_by_role("button", name="Sample again").click()
    panel.locator("p", has_text="Texts of plans sampled").wait_for()
    label = cards.last.get_by_role("button").get_attribute("aria-label")
    cards.last.get_by_role("button").click()
    studio.ready()
    assert label == f"Take the plan of this text: {studio.plan}"


def test_any_text_is_aligned_and_checked_and_its_plan_selected(studio: Studio) -> None:
    panel = studio.check("Hydrogen is a gas, was found in 1801 and melts at 14 K. It is a nonmetal.")
    verdicts = panel.locator(".strip:not(.critic)").inner_text()
    assert "Faults found" in verdicts and "1 invented" in verdicts and "1801" in verdicts and "1 missing" in verdicts
    assert panel.locator(".foreign").first.inner_text().startswith("1801")
    panel.get_by_role("button", name="Corpus text 1").click()
    panel.locator(".verdict.good").wait_for()
    ids = "(nodes) => nodes.map((node) => node.dataset.facts).join(' ')"
    groups = [fact.get_attribute("data-facts") for fact in panel.locator(".text .fact").all()]
    panel.get_by_role("button", name="Use this text's plan").click()
    studio.ready()
    rows = studio.page.locator("#board .group").all()
    assert [row.locator(".chip").evaluate_all(ids) for row in rows] == groups


def test_two_plans_are_compared_with_their_differences(studio: Studio) -> None:
    panel = studio.tab("Compare")
    assert "model" not in panel.inner_text(), "there is no second model to compare with"
    panel.get_by_role("button", name="Save this plan and text").click()
    saved_text = studio.text
    studio.click("Merge group A with B")
    sides = panel.locator(".sides .card .text")
    assert sides.nth(0).inner_text() == saved_text and sides.nth(1).inner_text() == studio.text
    assert panel.locator("del").count() and panel.locator("ins").count()
    panel.get_by_role("button", name="Discard").click()
    assert panel.locator(".sides").count() == 0


def test_two_models_write_by_the_same_plan_side_by_side(visit: Any, two_models: str) -> None:
    studio = visit(two_models)
    panel = studio.tab("Compare")
    sides = panel.locator(".sides").first.locator(".card")
    sides.nth(1).locator(".verdict").wait_for()
    assert sides.nth(0).locator(".text").inner_text() == studio.text
    assert sides.nth(0).locator("del").count() and sides.nth(1).locator("ins").count()
    plans = [side.locator(".box").all_inner_texts() for side in sides.all()]
    assert plans[0] == plans[1] and len(plans[0]) == studio.plan.count("[")
    studio.click("Merge group A with B")
    panel.get_by_text("Both models are writing").wait_for(state="detached")
    assert sides.nth(0).locator(".text").inner_text() == studio.text
    panel.get_by_role("button", name="Each model's own plan").click()
    panel.get_by_text("Both models are writing").wait_for(state="detached")
    names = panel.locator("h3 bdi").all_inner_texts()
    assert names[0].startswith("elements") and names[1].startswith("other") and names[0] != names[1]


def test_two_models_are_retried_after_a_failure(visit: Any, two_models: str) -> None:
    studio = visit(two_models)
    studio.page.route("**/v1/generate", lambda route: route.abort())
    studio.tab("Compare").get_by_role("alert").wait_for()
    studio.page.unroute("**/v1/generate")
    studio.page.evaluate("() => window.dispatchEvent(new Event('online'))")  # repeats the request
    studio.page.locator(".sides .verdict").nth(1).wait_for()


def test_the_verdicts_of_a_critic_are_shown(studio: Studio) -> None:
    def judged(route: Any) -> None:
        answer = route.fetch()
        data = answer.json()
        values = data["answers"][0]["values"]
        verdicts = [{"predicate": value["predicate"], "verdict": "said"} for value in values]
        verdicts[0]["verdict"] = "contradicted"
        data["answers"][0] |= {
            "scores": {"coverage": 0.75, "correctness": 0.5, "fluency": 1.0},
            "risk": 0.5,
            "triples": verdicts,
            "invented_spans": [[0, 8]],
        }
        route.fulfill(response=answer, json=data)

    studio.page.route("**/v1/check", judged)
    studio.page.get_by_role("button", name="Next record").click()
    studio.page.locator("#checks .critic", has_text="risk 50 %").wait_for()
    critic = studio.page.locator("#checks .critic").inner_text()
    for part in ("1 contradicted", "coverage 75 %", "correctness 50 %", "fluency 100 %"):
        assert part in critic
    assert studio.page.locator("#words .foreign").count()


def test_downloaded_corrections_are_training_records(studio: Studio, tmp_path: Path) -> None:
    panel = studio.tab("Corrections")
    area = studio.page.get_by_label("Corrected text")
    assert area.input_value() == studio.text
    for text in ("Hydrogen is a gaseous nonmetal.", 'A "second" <text>.'):
        area.fill(text)
        panel.get_by_role("button", name="Save correction").click()
    studio.click("Next record")
    area.fill("Of another record.")
    panel.get_by_role("button", name="Save correction").click()
    studio.page.reload()
    studio.ready()
    studio.tab("Corrections")
    with studio.page.expect_download() as download:
        panel.get_by_role("button", name="Download 3 as JSON lines").click()
    download.value.save_as(tmp_path / "corrections.jsonl")
    records = load_records(tmp_path / "corrections.jsonl")
    texts = [[reference.text for reference in record.references] for record in records]
    assert texts == [["Hydrogen is a gaseous nonmetal.", 'A "second" <text>.'], ["Of another record."]]
    panel.get_by_role("button", name="Remove saved text 1").click()
    assert panel.locator("#keptlist .card").count() == 2
    studio.page.goto("about:blank")
    studio.page.goto(studio.url)  # opening a link keeps the corrections
    studio.ready()
    assert studio.tab("Corrections").locator("#keptlist .card").count() == 2


def test_a_link_has_record_and_plan_and_is_sent_to_no_server(studio: Studio, visit: Any, url: str, faults: Any) -> None:
    studio.enter_plan("[discoveryYear] [meltingPoint category] [stateAtRoomTemperature]")
    studio.tab("Share")
    link = studio.page.locator("#share-link").input_value()
    assert link.startswith(f"{url}/#r=")
    opened = visit(link)
    assert (opened.plan, opened.text, opened.triples) == (studio.plan, studio.text, studio.triples)
    assert all("r=" not in path for path in faults.requested_paths)
    assert opened.page.url == f"{url}/"
    opened.enter_plan("[stateAtRoomTemperature] [discoveryYear] [meltingPoint category]")
    opened.page.reload()
    opened.ready()
    assert opened.plan == "[stateAtRoomTemperature] [discoveryYear] [meltingPoint category]"  # not the plan of the link
    for broken in ("#r=AAAA", "#r=!!", "#r=" + "e30", "#other"):
        assert visit(f"{url}/{broken}").plan  # the first example is shown instead


def test_the_request_and_the_curl_line_give_the_same_text(studio: Studio) -> None:
    subject = "O'Neil's \"metal\""
    studio.load(json.dumps([[subject, "symbol", "$(x)`y`"], [subject, "category", "metalloid"]]))
    studio.tab("Share")
    line = studio.page.locator("#share-curl").input_value()
    words = shlex.split(line)
    assert json.loads(words[-1]) == json.loads(studio.page.locator("#share-json").input_value())
    answer = json.loads(subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout)
    assert answer["answers"][0]["texts"][0]["text"] == studio.text == studio.page.locator("#share-plain").input_value()
    studio.page.get_by_role("button", name="Copy curl").click()
    assert studio.page.evaluate("() => navigator.clipboard.readText()") == line


def test_copied_words_are_marked_on_request(studio: Studio) -> None:
    marked = studio.page.locator("#words .show-copied .copied")
    assert marked.count() == 0
    studio.page.get_by_role("button", name="Copied words").click()
    assert "1766" in marked.all_inner_texts() or "Hydrogen" in marked.all_inner_texts()
