"""How soon the live page shows a large workspace, and a run of very many points, in a headless browser."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from trainwright.server.dashboard.serving import Dashboard

REPETITIONS = 5
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OVERVIEW, CURVE = "main h1", "main canvas"
"""What is there when the first thing of a page can be read."""


def page_seconds(workspace: Path, run_id: str) -> dict[str, Any]:
    """Return the medians of seconds until the overview and the run's curves are drawn; why there are none otherwise."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return {"page_seconds": None, "page_unmeasured": f"none of {', '.join(BROWSERS)} is installed"}
    page = Dashboard(workspace)
    page.start()
    try:
        overview, run = _opened(browser, page.access.address, run_id)
    finally:
        page.stop()
    return {"page_seconds": max(overview, run), "page_overview_seconds": overview, "page_run_seconds": run}


def _opened(browser: str, address: str, run_id: str) -> tuple[float, float]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        view = program.new_page()
        view.goto(address)
        view.wait_for_selector(OVERVIEW)
        base = view.url.partition("#")[0]
        overview = [_seconds(view, f"{base}#/", OVERVIEW) for _ in range(REPETITIONS)]
        run = [_seconds(view, f"{base}#/runs/{run_id}", CURVE) for _ in range(REPETITIONS)]
        program.close()
    return round(statistics.median(overview), 3), round(statistics.median(run), 3)


def _seconds(view: Any, address: str, selector: str) -> float:
    """Time one opening, as of a page that was never opened before."""
    view.goto("about:blank")
    began = time.perf_counter()
    view.goto(address, wait_until="commit")
    view.wait_for_selector(selector)
    return time.perf_counter() - began
