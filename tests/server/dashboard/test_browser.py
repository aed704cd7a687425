"""The page in a real browser: curves that go on, at a phone's width, by keyboard, and nothing that runs by itself."""

from __future__ import annotations

import time

import pytest
from tests.server.dashboard.conftest import add_study, chromium_of

NOT_FOUND = "Failed to load resource: the server responded with a status of 404 (Not Found)"
"""How Chromium reports the answer about a project that is not there."""
PHONE = {"width": 360, "height": 740}
POINTS = """() => { const chart = document.querySelector("figure"); return chart && !chart.hidden
    ? chart.querySelector(".plot").getAttribute("aria-label") : "" }"""


@pytest.fixture(scope="module")
def browser():
    program, playwright = chromium_of("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def show(browser, served):
    """`show("#/runs/…")` opens the page there; what it complains about fails the test."""
    contexts, complaints = [], []

    def opened(place="#/", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(served.address + place)
        page.wait_for_selector(f"html[data-ready='{place}']")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [text for text in complaints if text != NOT_FOUND] == []


def until(look, holds):
    """Return the first look that holds, or the last."""
    end = time.monotonic() + 20
    while not holds(seen := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return seen


@pytest.mark.requirement("MON-1", "MON-2")
def test_a_curve_grows_while_its_run_trains(show, served):
    page = show(f"#/runs/{served.growing.directory.run_id}")
    served.growing.grow(5)
    wanted = f"at step {served.growing.step},"
    assert wanted in until(lambda: page.evaluate(POINTS), lambda text: wanted in text)
    assert page.locator("canvas").first.is_visible()
    assert f"{served.growing.step} of 1,000" in page.locator("dl").inner_text()


@pytest.mark.requirement("MON-2")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone(show, served, scheme):
    for place in ("#/", "#/projects/flowers", f"#/runs/{served.smoke}", "#/documents/diagnostics/overfitting.md"):
        page = show(place, viewport=PHONE, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], place
        assert page.locator("main h1").count() == 1


@pytest.mark.requirement("TUNE-4", "MON-2")
def test_a_study_shows_what_mattered_and_joins_no_trials_by_lines(show, served):
    study = add_study(served.workspace)
    page = show(f"#/studies/{study}", viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    shares = page.locator("section:has(h2:text('Importance')) tbody tr")
    assert shares.count() == 2
    assert "optimizer.learning_rate" in shares.first.inner_text()
    assert float(shares.first.locator("progress").first.get_attribute("value")) > 0.5
    facts = page.locator("dl").first.inner_text()
    assert "12 of 20" in facts
    assert "trial 11: 11" in facts


@pytest.mark.requirement("TUNE-3", "MON-2")
def test_a_study_of_two_objectives_shows_both_its_front_and_the_best_within_the_bounds(show, served):
    further = {"metric": "parameters", "direction": "minimize", "at_most": 7.5}
    page = show(f"#/studies/{add_study(served.workspace, [further], '0a0b0d')}", viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    facts = page.locator("dl").first.inner_text()
    assert "maximize accuracy; minimize parameters (parameters at most 7.5)" in facts
    assert "trials 11, 10, 5, 0" in facts
    assert "trial 11: 11" in facts
    trials = page.locator("section:has(h2:text('Trials'))")
    assert trials.locator("thead th").all_inner_texts()[:4] == ["Trial", "State", "accuracy", "parameters"]
    rows = trials.locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows if "front" in row] == [
        "0 (front)",
        "5 (front)",
        "10 (front)",
        "11 (best, front)",
    ]
    assert rows[5].split("\t")[2:4] == ["5", "1"]


def test_what_a_project_says_is_shown_and_never_run(show):
    for place in ("#/", "#/projects/flowers"):
        page = show(place)
        assert "<script>window.broken = 1</script>" in page.locator("main").inner_text()
        assert page.evaluate("window.broken") is None
        assert page.locator("main img, main script").count() == 0


@pytest.mark.requirement("MON-2")
def test_it_is_used_by_keyboard_alone(show, served):
    page = show("#/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    while "#/projects/flowers" not in str(page.evaluate("document.activeElement.href || ''")):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement !== document.body"), "the project was never reached"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-ready='#/projects/flowers']")
    assert page.evaluate("document.activeElement.id") == "main"
    assert "flowers" in page.title()


def test_single_values_of_a_curve_are_read_by_arrow_keys(show, served):
    page = show(f"#/runs/{served.smoke}")
    plot = page.locator(".plot").first
    plot.focus()
    page.keyboard.press("Home")
    first = page.locator(".legend").first.inner_text()
    page.keyboard.press("ArrowRight")
    assert first.startswith("step ")
    assert page.locator(".legend").first.inner_text() != first


def test_landmarks_and_tables_are_named(show, served):
    page = show(f"#/runs/{served.smoke}")
    assert page.locator("main, header, nav[aria-label]").count() == 3
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("table:not(:has(caption)), table:not(:has(th[scope=col]))").count() == 0
    unnamed = "button:not(:has-text('*')), [role=region]:not([aria-label]), [role=img]:not([aria-label])"
    assert page.locator(unnamed).evaluate_all("found => found.filter((one) => !one.textContent).length") == 0


def test_a_run_that_is_not_there_says_so(show):
    page = show("#/projects/flowers")
    page.goto(page.url.partition("#")[0] + "#/projects/nothing")
    assert "There is no project" in page.locator("[role=alert]").inner_text()
