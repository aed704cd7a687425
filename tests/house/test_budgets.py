"""Processor time is charged to the test that spends it, and an area above its budget is named."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from tests.processor_time import BUDGETS, area_of, over_budget, worked_seconds

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
    assert over_budget({"house": 99.0}, {"house": 100}, 1.0) == []
    assert over_budget({"house": 150.0}, {"house": 100}, 2.0) == [], "on a machine that is half as fast"
    [dear] = over_budget({"house": 250.0}, {"house": 100}, 2.0)
    assert dear.startswith("house took 250 s of processor time, its budget is 200 s here")
    [new] = over_budget({"tools/new": 1.0}, {"house": 100}, 1.0)
    assert "tests/budgets.yaml" in new


def test_the_budgets_are_numbers() -> None:
    assert all(
        isinstance(seconds, int | float) and seconds > 0 for seconds in yaml.safe_load(BUDGETS.read_text()).values()
    )
