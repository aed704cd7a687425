"""What tests cost in processor time, and which area of them costs more than it may.

A clock says how busy the machine was; processor time says what a test does. Each test is charged with what its process
and the processes below it worked, fixtures that it is the first to ask for included. A process that left its parent
(a server's supervisor, a run that outlives its launcher) is not below it any more and is not counted.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

TESTS = Path(__file__).parent
BUDGETS = TESTS / "budgets.yaml"
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
NESTED = frozenset({"tools", "trainer"})
"""Folders whose folders are areas of their own."""
CALIBRATION_ROUNDS = 400_000
BETWEEN = 100
"""Tests between two looks at how slow the machine is: two busy cores that share one are slower than either alone."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take `--processor-times FILE` and `--budgets`."""
    parser.addoption("--processor-times", metavar="FILE", help="write the processor seconds of every test, as JSON")
    parser.addoption(
        "--budgets", action="store_true", help="fail when an area needs more than tests/budgets.yaml allows"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the processes that run tests; add up in the one that reports."""
    if (PROC / "self/task").is_dir():
        config.pluginmanager.register(Meter(), "processor-time-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Sums(config), "processor-time-sums")


class Meter:
    """Charges each test with the processor time that passed since the one before it ended."""

    def __init__(self) -> None:
        self.charged = worked_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Put the seconds on the last report of a test, which every form of a run hands on."""
        report = yield
        if call.when == "teardown":
            now = worked_seconds()
            report.processor_seconds, self.charged = max(0.0, now - self.charged), now
        return report


class Sums:
    """Adds the reports up by area, prints them, and holds them to their budgets."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.began = config, time.monotonic()
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.by_test: dict[str, float] = {}
        self.over: list[str] = []
        self.pace: list[float] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test cost."""
        seconds = getattr(report, "processor_seconds", None)
        if seconds is not None:
            self.seconds[area_of(report.nodeid)] += seconds
            self.tests[area_of(report.nodeid)] += 1
            self.by_test[report.nodeid] = round(seconds, 3)
            if self.config.getoption("budgets") and len(self.by_test) % BETWEEN == 0:
                self.pace.append(fixed_work())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge the areas before the exit status is final."""
        if file := self.config.getoption("processor_times"):
            Path(file).write_text(json.dumps(self.by_test, indent=0), encoding="utf-8")
        if not self.config.getoption("budgets"):
            return
        budgets = yaml.safe_load(BUDGETS.read_text(encoding="utf-8"))
        slowness = max(1.0, median(self.pace or [fixed_work()]) / budgets["calibration"])
        self.over = over_budget(self.seconds, budgets, slowness)
        if self.over and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """Print the areas, the dearest first, and one JSON object as the last line."""
        if len(self.by_test) < 2:
            return
        print("\nprocessor seconds by area")
        for area, seconds in self.seconds.most_common():
            print(f"{seconds:8.1f}  {self.tests[area]:5}  {area}")
        for line in self.over:
            print(f"over budget: {line}")
        areas = {area: round(seconds, 1) for area, seconds in self.seconds.most_common()}
        whole: dict[str, Any] = {"seconds": round(time.monotonic() - self.began, 1), "tests": len(self.by_test)}
        if self.pace:
            whole["fixed_work_seconds"] = round(median(self.pace), 4)
        print(json.dumps({**whole, "processor_seconds": round(sum(areas.values()), 1), "areas": areas}))


def area_of(nodeid: str) -> str:
    """Return the area of a test: `tools/gates` for one under tests/tools/gates, `house` for one under tests/house."""
    parts = Path(nodeid.partition("::")[0]).parts
    inner = parts[parts.index("tests") + 1 : -1] if "tests" in parts else parts[:-1]
    return "/".join(inner[: 2 if inner and inner[0] in NESTED else 1]) or "tests"


def over_budget(seconds: Mapping[str, float], budgets: Mapping[str, float], slowness: float) -> list[str]:
    """Return one line for each area that needed more processor seconds than its budget, or that has none.

    Args:
        seconds: by area, as measured.
        budgets: by area, in seconds of the machine that they were set on; `shared` is allowed to every area beside its
            own, since what all tests use is charged to the area that happens to ask first.
        slowness: how many times the processor time of the budgets' machine a fixed piece of work takes, at least 1.
    """
    lines = []
    for area, spent in seconds.items():
        if area not in budgets:
            lines.append(f"{area} took {spent:.0f} s and has no line in tests/budgets.yaml; give it one")
        elif spent > (most := (budgets[area] + budgets["shared"]) * slowness):
            lines.append(
                f"{area} took {spent:.0f} s of processor time, its budget is {most:.0f} s here; "
                "make its tests cheaper, or move variants to `long`"
            )
    return lines


def fixed_work() -> float:
    """Return the processor seconds that a fixed piece of work takes now."""
    before = time.process_time()
    total = 0
    for number in range(CALIBRATION_ROUNDS):
        total += number % 7
    return time.process_time() - before


def worked_seconds() -> float:
    """Return the processor seconds of this process and of all below it, ended ones included."""
    return sum(map(_seconds_of, _family(os.getpid())), 0.0)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in _listed(PROC / f"{pid}/task"):
        for child in _read(task / "children").split():
            yield from _family(int(child))


def _seconds_of(pid: int) -> float:
    """Of one process and of the children it has waited for: fields 14 to 17 of proc_pid_stat(5)."""
    fields = _read(PROC / f"{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS if fields else 0.0


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []  # it ended meanwhile


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
