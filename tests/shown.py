"""Requirements that tests show: by a test that ran and passed, here or in the nightly of the last week."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent
MANIFEST = yaml.safe_load((FOLDER / "requirements.yaml").read_text(encoding="utf-8"))
NIGHTLY = FOLDER / "nightly.json"
"""What `make nightly` ran, by part: its commit's date, and the tests that passed."""
COUNTS_FOR = dt.timedelta(days=7)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take `--requirements` and `--outcomes FILE`."""
    parser.addoption(
        "--requirements", action="store_true", help="fail when no test showed a requirement of done issues"
    )
    parser.addoption("--outcomes", metavar="FILE", help="append each test's outcome as it ends, one JSON object a line")


def pytest_configure(config: pytest.Config) -> None:
    """Note what is shown in the processes that run tests; judge in the one that reports."""
    config.pluginmanager.register(Shown(config), "shown-requirements")


class Shown:
    """The requirements shown so far: a process that runs tests knows their marks, the reporting one asks them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.marked: dict[str, list[str]] = {}
        """Requirements by test, of all that were collected, deselected ones included."""
        self.shown: set[str] = set()
        self.is_worker = hasattr(config, "workerinput")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note the marks of all tests, and refuse unknown ids."""
        self.marked = {item.nodeid: list(_requirements(item)) for item in items}
        unknown = [
            f"{test}: {name}" for test, names in self.marked.items() for name in names
            if name not in MANIFEST["requirements"]
        ]  # fmt: skip
        if unknown:
            raise pytest.UsageError(
                "requirement ids that tests/requirements.yaml does not know:\n  " + "\n  ".join(unknown)
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that ran; write down how each ended."""
        if report.when == "call" and report.passed:
            self.shown.update(self.marked.get(report.nodeid, ()))
        if not self.is_worker and (file := self.config.getoption("outcomes")) and (outcome := _outcome(report)):
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"test": report.nodeid, **outcome}) + "\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker's tests have shown."""
        self.shown.update(getattr(node, "workeroutput", {}).get("shown", ()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand on what was shown; where it was asked for, fail the run when something due was not."""
        if not self.config.getoption("requirements"):
            return
        for test in passed_by_nightly(self.config.rootpath):
            self.shown.update(self.marked.get(test, ()))
        if self.is_worker:
            self.config.workeroutput["shown"] = sorted(self.shown)  # type: ignore[attr-defined]
        elif (missing := sorted(due() - self.shown)) and session.exitstatus == pytest.ExitCode.OK:
            print(
                f"\nno test that ran shows these requirements of done issues: {', '.join(missing)}. A skipped or "
                "deselected test counts for a week after `make nightly` has run it (docs/nightly.md)."
            )
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def due() -> set[str]:
    """Return the requirements of done issues."""
    return {name for name, entry in MANIFEST["requirements"].items() if entry["tested_from"] in MANIFEST["done"]}


def passed_by_nightly(root: Path) -> set[str]:
    """Return the tests that the nightly has passed on a commit at most a week older than the one checked out.

    Without git, today stands for the date of the commit.
    """
    if not NIGHTLY.exists():
        return set()
    command = ["git", "-C", str(root), "log", "-1", "--format=%cI"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        said = ""
    since = (dt.datetime.fromisoformat(said) if said else dt.datetime.now(tz=dt.UTC)) - COUNTS_FOR
    parts = json.loads(NIGHTLY.read_text(encoding="utf-8"))["parts"].values()
    return {test for part in parts if dt.datetime.fromisoformat(part["commit_date"]) >= since for test in part["shown"]}


def _requirements(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("requirement"):
        yield from mark.args


def _outcome(report: pytest.TestReport) -> dict[str, str] | None:
    """Return the outcome that a report settles: of the call, or of what failed or skipped before or after it."""
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
        return {"outcome": "skipped", "reason": str(reason).removeprefix("Skipped: ")}
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        return {"outcome": "failed", "error": crash.message if crash else str(report.longrepr)[-2000:]}
    return {"outcome": "passed"} if report.when == "call" else None
