"""Processor time is charged to the test that spends it, and an area above its budget is named."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from tests.processor_time import BUDGETS, TESTS, area_of, over_budget, worked_seconds

BURNING = "import time\nwhile time.process_time() < 0.3: pass"


@pytest.mark.skipif(sys.platform != "linux", reason="processor time of other processes is read from /proc")
def test_the_work_of_a_process_that_has_ended_below_this_one_counts() -> None:
    before = worked_seconds()
    subprocess.run([sys.executable, "-I", "-S", "-c", BURNING], check=True)
    assert worked_seconds() - before >= 0.28


@pytest.mark.parametrize(
    ("nodeid", "area"),
    [
        ("tests/tools/gates/test_checks.py::test_a[x::y]", "tools/gates"),
        ("tests/trainer/data/images/test_folders.py::test_a", "trainer/data"),
        ("tests/server/commands/test_a.py::test_a", "server"),
        ("tests/trainer/test_worker.py::test_a", "trainer"),
    ],
)
def test_an_area_is_a_room_of_the_house(nodeid: str, area: str) -> None:
    assert area_of(nodeid) == area


def test_an_area_above_its_budget_or_without_one_is_named_with_its_seconds() -> None:
    budgets = {"shared": 50, "house": 100}
    assert over_budget({"house": 149.0}, budgets, 1.0) == [], "it may have been the first to ask for what all use"
    assert over_budget({"house": 250.0}, budgets, 2.0) == [], "on a machine that is half as fast"
    [dear] = over_budget({"house": 350.0}, budgets, 2.0)
    assert dear.startswith("house took 350 s of processor time, its budget is 300 s here")
    [new] = over_budget({"tools/new": 1.0}, budgets, 1.0)
    assert "tests/budgets.yaml" in new


def test_the_budgets_are_numbers() -> None:
    assert all(
        isinstance(seconds, int | float) and seconds > 0 for seconds in yaml.safe_load(BUDGETS.read_text()).values()
    )


def test_every_budget_is_of_an_area_that_has_tests() -> None:
    areas = {area_of(path.relative_to(TESTS.parent).as_posix()) for path in TESTS.rglob("test_*.py")}
    assert set(yaml.safe_load(BUDGETS.read_text())) - {"calibration", "shared"} == areas
