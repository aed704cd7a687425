"""Runs that are killed and resumed end with the bits of one that was left alone."""

from __future__ import annotations

from typing import Any

from lane import RESUMED, Lane, check, differences, scenario

PLACES = (("step", "17"), ("validating", "2"), ("saving", "4"), ("tagging", "3"))
"""In mid-epoch, while validating, while a checkpoint's files are written, between checkpoint and tags."""


def _resumed(lane: Lane, values: dict[str, Any]) -> None:
    whole = lane.trained("whole/killed", values, code_root=str(RESUMED))
    runs = {kill: lane.make(f"{kill[0]}/killed", values, code_root=str(RESUMED)) for kill in PLACES}
    lane.work_on_all(runs)
    assert {run.status().attempt for run in runs.values()} == {2}
    found = {place: different[:5] for (place, _), run in runs.items() if (different := differences(run, whole))}
    lane.figures["kills"] = len(PLACES)
    assert not found, found


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "resume_fp32": ("in fp32 with dropout and batch statistics", "augmented data, batch norm, dropout", {}),
    "resume_bf16": ("in bf16", "bf16", {}),
    "resume_fp16": ("in fp16 with the scaler's state", "fp16 with loss scaling", {}),
    "resume_ema": ("with an average of the weights", "EMA of the weights", {}),
    "resume_compiled": ("compiled", "augmented data, batch norm, dropout", {"training": {"epochs": 3, "compile": {}}}),
    "resume_workers": ("with loader workers, pinned memory and accumulation", "accumulation, clipping, one-cycle", {
        "loader": {"batch_size": 8, "num_workers": 2, "pin_memory": True, "persistent_workers": True}}),
}  # fmt: skip
"""Name of the check to its words, the scenario of `make bench-resume`, and what is other in it."""
for _name, (_words, _scenario, _changes) in CASES.items():

    def _work(lane: Lane, scene: str = _scenario, changes: dict[str, Any] = _changes) -> None:
        _resumed(lane, {**scenario(scene), **changes})

    _work.__doc__ = f"Killed at four places and resumed, {_words}: the same bits."
    check(_name, 240)(_work)
