"""Everything in which two ended runs could differ, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.run import RunDirectory

OF_THE_CLOCK = {"train_seconds", "data_wait_seconds"}
OF_INSPECTIONS = ("layers/", "watch/")
"""Measured at steps that the clock chooses: equal at those that both runs inspected."""
SUMMARY = ("weights_digest", "best", "final", "stop_reason", "epochs", "steps", "early_stopping")


def differences(run: RunDirectory, whole: RunDirectory) -> list[str]:
    """Return what differs: metric history, checkpoints with all their state, decisions. Empty: nothing."""
    found = _metrics(run, whole)
    ours, theirs = run.evidence("summary") or {}, whole.evidence("summary") or {}
    found += [
        f"summary.{key}: {ours.get(key)} != {theirs.get(key)}" for key in SUMMARY if ours.get(key) != theirs.get(key)
    ]
    kept = {record.name: record for record in list_checkpoints(run)}
    for record in list_checkpoints(whole):
        if record.name not in kept or kept[record.name].tags != record.tags:
            found.append(f"checkpoint {record.name} {record.tags}: {kept.get(record.name)}")
            continue
        found += verify_checkpoint(kept[record.name].path)
        found += _checkpoint(kept[record.name].path, record.path)
    return found


def _metrics(run: RunDirectory, whole: RunDirectory) -> list[str]:
    mine, other = run.metrics(), whole.metrics()
    keys = [key for key in other.keys() if not key.startswith(("throughput/", "system/"))]  # noqa: SIM118 - a method
    found = []
    for key in keys:
        ours = [(point.step, repr(point.value)) for point in mine.series(key)]
        theirs = [(point.step, repr(point.value)) for point in other.series(key)]
        if key.startswith(OF_INSPECTIONS):
            shared = dict(ours).keys() & dict(theirs).keys()
            ours, theirs = ([one for one in points if one[0] in shared] for points in (ours, theirs))
        if ours != theirs:
            first = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
            found.append(f"metric {key}: {len(ours)} and {len(theirs)} points, first difference {first}")
    return found


def _checkpoint(ours: Path, theirs: Path) -> list[str]:
    found = [
        f"{theirs.name}/{name}"
        for name in ("model.safetensors", "optimizer.safetensors")
        if (ours / name).read_bytes() != (theirs / name).read_bytes()
    ]
    left, right = (_without_clock(json.loads((path / "state.json").read_text())) for path in (ours, theirs))
    return found + [f"{theirs.name}/state.json: {key}" for key in right if left.get(key) != right[key]]


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clock(item) for key, item in value.items() if key not in OF_THE_CLOCK}
    return [_without_clock(item) for item in value] if isinstance(value, list) else value
