"""Rows that are drawn to compare them: how many is bounded by work, and only in the end by the clock."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from trainwright.trainer.data import drawn_rows

pytestmark = pytest.mark.requirement("REPRO-4")


class Slow(torch.utils.data.Dataset[Any]):
    """Rows that wait, as on a busy machine, or work, or one waits for long, as where a machine stands still."""

    def __init__(self, *, works: bool, stands_still: bool = False) -> None:
        self.works, self.stands_still = works, stands_still

    def __len__(self) -> int:
        return 40

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        until = time.thread_time() + 0.01
        while self.works and time.thread_time() < until:
            pass
        if self.stands_still:
            time.sleep(0.5 if row == 3 else 0.0)
        elif not self.works:
            time.sleep(0.01)
        return torch.tensor([float(row)]), row % 2


@pytest.mark.parametrize(
    ("works", "reading", "waiting", "is_whole"),
    [(False, 0.15, 20.0, True), (False, 20.0, 0.15, False), (True, 0.15, 20.0, False)],
)
def test_rows_that_wait_are_all_drawn_and_those_that_work_for_too_long_are_not(
    works: bool, reading: float, waiting: float, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_rows, "READING_SECONDS", reading)
    monkeypatch.setattr(drawn_rows, "WAITING_SECONDS", waiting)
    found = drawn_rows.draw(Slow(works=works), 0, "train", 40)
    assert found is not None
    assert (len(found.indices) == 40) is is_whole


def test_a_machine_that_stands_still_once_takes_no_rows_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_rows, "WAITING_SECONDS", 0.4)
    found = drawn_rows.draw(Slow(works=False, stands_still=True), 0, "train", 40)
    assert found is not None
    assert len(found.indices) == 40
