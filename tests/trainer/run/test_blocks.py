"""Blocks of a series: what grows between looks reads the same as all of it at once."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from trainwright.trainer.run import blocks
from trainwright.trainer.run.metrics import WIDE, MetricStore

STEPS = 3 * WIDE


def value(step: int) -> float:
    return math.nan if step % 1009 == 0 else math.sin(step / 500) + step % 7


def write(store: MetricStore, first: int, end: int, moment: float = 1.0) -> None:
    store.write(("train/loss", step, value(step), moment) for step in range(first, end))


def expected(count: int, end: int) -> list[tuple[int, float, float, float]]:
    width = 1
    while (end - 1) // width >= count:
        width *= 2
    spans = [[s for s in range(n * width, min((n + 1) * width, end)) if not math.isnan(value(s))]
             for n in range((end - 1) // width + 1)]  # fmt: skip
    return [
        (span[-1], math.fsum(map(value, span)) / len(span), min(map(value, span)), max(map(value, span)))
        for span in spans
        if span
    ]


def assert_equal(found: list[tuple[int, float, float, float]], wanted: list[tuple[int, float, float, float]]) -> None:
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.requirement("MON-4")
@pytest.mark.parametrize("count", [7, *(pytest.param(count, marks=pytest.mark.long) for count in (1, 200, 2000))])
def test_a_series_that_grows_between_looks_reads_as_all_of_it_at_once(tmp_path: Path, count: int) -> None:
    path, draw = tmp_path / "metrics.sqlite", random.Random(count)
    with MetricStore(path, writer=True) as store:
        end = WIDE + 5
        write(store, 0, end)
        while end < STEPS:
            assert_equal(MetricStore(path).buckets("train/loss", count), expected(count, end))
            grown = min(STEPS, end + draw.choice([1, 3, 1_000, 20_000]))
            write(store, end, grown)
            end = grown
    assert_equal(MetricStore(path).buckets("train/loss", count), expected(count, STEPS))


@pytest.mark.requirement("MON-4")
def test_a_look_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "metrics.sqlite", []
    with MetricStore(path, writer=True) as store:
        write(store, 0, STEPS)
        monkeypatch.setattr(
            MetricStore, "_block", lambda self, key, first, end, real=MetricStore._block:
            (read.append((first, end)), real(self, key, first, end))[1],
        )  # fmt: skip
        MetricStore(path).buckets("train/loss", 100)
        assert sum(end - first for first, end in read) >= STEPS
        write(store, STEPS, STEPS + 10)
        read.clear()
        MetricStore(path).buckets("train/loss", 100)
        assert sum(end - first for first, end in read) <= 2 * STEPS // blocks.FINEST + 40


@pytest.mark.requirement("MON-4")
def test_steps_that_a_resumed_run_records_again_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    with MetricStore(path, writer=True) as store:
        write(store, 0, STEPS)
        MetricStore(path).buckets("train/loss", 10)
        store.forget_after(WIDE + 1)
        store.write(("train/loss", step, 100.0, 2.0) for step in range(WIDE + 2, STEPS))
        assert MetricStore(path).buckets("train/loss", 10)[-1][1:] == (100.0, 100.0, 100.0)
        store.forget_after(WIDE + 1)
        assert MetricStore(path).buckets("train/loss", 10)[-1][3] < 100
