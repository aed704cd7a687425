"""Runs that are killed and resumed end with the bits of one that was left alone."""

from __future__ import annotations

from typing import Any

from lane import Lane, check, differences, scenario

PLACES = (("step", "17"), ("validating", "2"), ("saving", "4"), ("tagging", "3"))
"""In mid-epoch, while validating, while a checkpoint's files are written, between checkpoint and tags."""


def _resumed(lane: Lane, values: dict[str, Any], places: tuple[tuple[str, str], ...] = PLACES) -> None:
    whole = lane.trained("whole/killed", values, code_root=lane.project())
    runs = {kill: lane.make(f"{kill[0]}/killed", values, code_root=lane.project()) for kill in places}
    lane.work_on_all(runs)
    assert {run.status().attempt for run in runs.values()} == {2}
    found = {place: different[:5] for (place, _), run in runs.items() if (different := differences(run, whole))}
    lane.figures["kills"] = len(places)
    assert not found, found


@check("resume_fp32", 150)
def resume_fp32(lane: Lane) -> None:
    """Killed at four places and resumed, in fp32 with dropout and batch statistics: the same bits."""
    _resumed(lane, scenario("augmented data, batch norm, dropout"))


@check("resume_bf16", 150)
def resume_bf16(lane: Lane) -> None:
    """Killed at four places and resumed, in bf16: the same bits."""
    _resumed(lane, scenario("bf16"))


@check("resume_fp16", 150)
def resume_fp16(lane: Lane) -> None:
    """Killed at four places and resumed, in fp16 with the scaler's state: the same bits."""
    _resumed(lane, scenario("fp16 with loss scaling"))


@check("resume_ema", 150)
def resume_ema(lane: Lane) -> None:
    """Killed at four places and resumed, with an average of the weights: the same bits."""
    _resumed(lane, scenario("EMA of the weights"))


@check("resume_compiled", 240)
def resume_compiled(lane: Lane) -> None:
    """Killed at four places and resumed, compiled: the same bits."""
    values = scenario("augmented data, batch norm, dropout")
    _resumed(lane, {**values, "training": {"epochs": 3, "compile": {}}})


@check("resume_workers", 150)
def resume_workers(lane: Lane) -> None:
    """Killed and resumed, with loader workers, pinned memory and accumulation: the same bits."""
    values = scenario("accumulation, clipping, one-cycle")
    loader = {"batch_size": 8, "num_workers": 2, "pin_memory": True, "persistent_workers": True}
    _resumed(lane, {**values, "loader": loader}, PLACES[:2])
