"""Torn records: read up to the damage and after it, and said so."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.corrupt_records import TornMetrics, damage_of
from trainwright.trainer.run.metrics import MetricStore
from trainwright.trainer.run.status import EventWriter, read_log

STEPS, PAGE = 20_000, 4096


@pytest.fixture
def torn_file(tmp_path: Path) -> Path:
    """A file of two series, one of whose pages in the middle was overwritten."""
    path = tmp_path / "metrics.sqlite"
    with MetricStore(path, writer=True) as store:
        for key in ("train/loss", "validation/loss"):
            store.write((key, step, step / 7, 1.0) for step in range(STEPS))
    content = bytearray(path.read_bytes())
    middle = content.find(b"train/loss", len(content) // 4) // PAGE * PAGE
    content[middle : middle + PAGE] = b"\xff" * PAGE
    path.write_bytes(bytes(content))
    return path


@pytest.mark.requirement("MON-4")
def test_a_torn_series_is_read_before_and_after_the_damage(torn_file: Path) -> None:
    with pytest.raises(IntegrityError, match="cannot be read"):
        MetricStore(torn_file).series("train/loss")
    metrics = TornMetrics(torn_file)
    points = metrics.series("train/loss")
    steps = [point.step for point in points]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, STEPS - 1)
    assert STEPS - 1_000 < len(steps) < STEPS
    assert all(point.value == point.step / 7 for point in points)
    before, after = next((a, b) for a, b in itertools.pairwise(steps) if b > a + 1)
    assert metrics.torn == {"train/loss": f"after step {before}, up to step {after}"}
    assert metrics.keys() == ["train/loss", "validation/loss"]
    assert metrics.last("validation/loss") == (STEPS - 1, (STEPS - 1) / 7, 1.0)
    assert len(metrics.series("validation/loss")) == STEPS


@pytest.mark.requirement("MON-4")
def test_buckets_leave_out_only_the_damage(torn_file: Path) -> None:
    found = TornMetrics(torn_file).buckets("train/loss", 100)
    assert found[0][0] < STEPS / 50
    assert found[-1][0] == STEPS - 1
    assert len(found) >= 50


@pytest.mark.requirement("MON-4")
def test_a_log_torn_in_the_middle_is_read_after_it_and_says_which_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    for number in range(5):
        writer.append("note", {"text": str(number)})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2][:20] + b"\x00\x00\n", *lines[3:]]))
    events, damaged = read_log(path)
    assert [event.data["text"] for event in events] == ["0", "1", "3", "4"]
    assert damaged == [3]
    assert damage_of(RunDirectory(tmp_path)) == [
        "events.jsonl: damaged at line 3; the lines before and after it are read."
    ]


@pytest.mark.requirement("MON-4")
def test_what_a_killed_worker_left_unfinished_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventWriter(path).append("started", {"attempt": 1})
    with path.open("ab") as file:
        file.write(b'{"time": 1.0, "kind": "epo')
    assert read_log(path)[1] == []
    EventWriter(path).append("started", {"attempt": 2})
    events, damaged = read_log(path)
    assert [event.data["attempt"] for event in events] == [1, 2]
    assert damaged == []
