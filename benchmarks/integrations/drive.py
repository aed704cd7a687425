"""Drives the form in a browser by what a JSON object on standard input says; prints what it saw as one JSON line.

Run by an interpreter that has playwright. `{"url", "chromium", "axe", "picture", "button", "wrong": [[label, value]],
"right": [[label, value]], "files": labels that take a file, "dark"}`.
"""

import json
import sys
from typing import Any

from playwright.sync_api import Page, sync_playwright

CHECK = "async () => (await axe.run()).violations.map(v => v.id + ': ' + v.nodes.map(n => n.target).join(' '))"


def fill(page: Page, fields: list[list[str]], files: list[str]) -> None:
    """Enter values by the labels of their fields."""
    for label, value in fields:
        field = page.get_by_label(label, exact=True)
        if label in files:
            field.set_input_files(value)
        elif field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


def type_it(page: Page, fields: list[list[str]]) -> None:
    """Enter values by the keyboard alone, field after field, and send the form."""
    page.get_by_label(fields[0][0], exact=True).focus()
    for label, value in fields:
        focused = page.evaluate("document.activeElement.labels?.[0]?.textContent")
        if focused != label:
            raise SystemExit(f"the tabulator leads to {focused!r}; expected is {label!r}")
        page.keyboard.press("Control+A")
        page.keyboard.type(value)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")


def send(page: Page) -> None:
    """Press the button by the keyboard."""
    page.get_by_role("button", name="Predict").focus()
    page.keyboard.press("Enter")


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what was seen."""
    seen: dict[str, Any] = {"hosts": set(), "console": []}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=asked["chromium"], args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 760, "height": 900})
        page.on("request", lambda request: seen["hosts"].add(request.url.split("/")[2]))
        page.on("pageerror", lambda error: seen["console"].append(str(error)))
        page.goto(asked["url"], wait_until="networkidle")
        page.add_script_tag(path=asked["axe"])
        seen["axe_empty"] = page.evaluate(CHECK)
        fill(page, asked["wrong"], asked["files"])
        send(page)
        page.get_by_test_id("failure").wait_for()
        invalid = page.locator("[aria-invalid=true]")
        seen["failure"] = page.get_by_test_id("failure").inner_text()
        seen["invalid"] = [one.get_attribute("name") for one in invalid.all()]
        seen["described"] = [
            page.locator(f"[id='{name}']").inner_text()
            for one in invalid.all()
            for name in (one.get_attribute("aria-describedby") or "").split()
        ]
        seen["focused"] = page.evaluate("document.activeElement.getAttribute('name')")
        seen["axe_refused"] = page.evaluate(CHECK)
        if asked["files"]:
            fill(page, asked["right"], asked["files"])
            send(page)
        else:
            type_it(page, asked["right"])
        told = page.get_by_role("status")
        told.get_by_role("heading").wait_for()
        seen["answer"] = told.inner_text()
        seen["axe_answered"] = page.evaluate(CHECK)
        page.screenshot(path=asked["picture"], full_page=True)
        page.emulate_media(color_scheme="dark")
        seen["axe_dark"] = page.evaluate(CHECK)
        browser.close()
    return {**seen, "hosts": sorted(seen["hosts"])}


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
