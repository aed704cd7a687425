"""Memory that grows without end is named; caches that fill, and noise, are not."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.tools.training_monitor import diagnose

MIB = 2.0**20


def named(make_run: Any, readings: list[float]) -> list[str]:
    run = make_run().steps("system/process_memory_bytes", [MIB * reading for reading in readings]).run
    return [alert.id for alert in diagnose(run)]


@pytest.mark.requirement("DIAG-7")
def test_memory_that_grows_as_much_in_each_quarter_is_named(make_run: Any) -> None:
    assert named(make_run, [500 + 20 * second for second in range(20)]) == ["memory_growth"]


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    "readings",
    [
        [500.0 + 300 * (1 - 0.8**second) for second in range(40)],  # a cache that fills
        [500.0 + 300 * (second % 2) for second in range(40)],  # what each epoch takes and gives back
        [500.0 + 3 * second for second in range(20)],  # too little to matter
        [500.0, 900.0, 1400.0],  # too few readings
    ],
    ids=["a cache", "waves", "a little", "three readings"],
)
def test_memory_that_settles_is_not_named(make_run: Any, readings: list[float]) -> None:
    assert named(make_run, readings) == []
