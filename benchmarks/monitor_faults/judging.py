"""Judgement of the suite: what the monitor named first, how soon it could, and whether its first fix cures."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults import Fault
from silent_faults import SilentFault

from trainwright.tools.training_monitor import Alert, diagnose
from trainwright.trainer.run import RunDirectory, RunState, RunStatus
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.directory import EVENTS

MOMENTS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 700, 1000, 1500)
"""Steps after which the record so far is diagnosed."""
COUNTED = ("warning", "critical")


@dataclass
class Verdict:
    """What the monitor said of one run."""

    kind: str
    seed: int
    said: list[str] = field(default_factory=list)
    """Ids of what it names of itself, the first first."""
    stops: bool = False
    """Whether something critical is among it."""
    named: bool = False
    right: int = 0
    wrong: int = 0
    delay_steps: int | None = None
    cured: bool | None = None
    """None: a change of the configuration cannot cure it, or none was proposed."""
    change: dict[str, Any] = field(default_factory=dict)


def findings(run: RunDirectory) -> list[Alert]:
    """Return the alerts that count: no hints, and no consequences of one that is named before them."""
    return [one for one in diagnose(run) if one.severity in COUNTED and one.consequence_of is None]


def judge(fault: Fault, seed: int, run: RunDirectory) -> Verdict:
    """Judge what is said of a faulty run: the first has to be the cause, and nothing else may be beside the point."""
    found = findings(run)
    said = [one.id for one in found]
    accepted = {*fault.names, *fault.symptoms}
    verdict = Verdict(fault.kind, seed, said, stops=any(one.severity == "critical" for one in found))
    verdict.named = bool(said) and said[0] in fault.names
    verdict.right = sum(name in accepted for name in said)
    verdict.wrong = len(said) - verdict.right
    return verdict


def judge_sound(name: str, run: RunDirectory, folder: Path) -> Verdict:
    """Judge what is said of a sound run, at the end and at every moment before: anything is wrong."""
    last = run.metrics().last("train/loss")
    moments = [until(run, step, folder) for step in MOMENTS if last is not None and step < last.step]
    found = {one.id: one for each in (*moments, run) for one in findings(each)}
    verdict = Verdict(name, 0, list(found), stops=any(one.severity == "critical" for one in found.values()))
    if run.status().state is not RunState.COMPLETED:
        verdict.said.append("did not complete")
    verdict.wrong = len(verdict.said)
    return verdict


def within_one_step(fault: SilentFault, run: RunDirectory) -> bool:
    """Whether a silent error was reported under its name in its first step or the next, or refused before training."""
    if fault.first_effect is None:
        return run.metrics().last("train/loss") is None and run.status().state is RunState.FAILED
    steps = [event.data["step"] for event in run.events("finding") if event.data.get("id") in fault.names]
    return bool(steps) and min(steps) <= fault.first_effect + 1


def delay(fault: Fault, run: RunDirectory, folder: Path) -> int | None:
    """Return the steps from the fault's first effect to the first record that names it; None: no record does."""
    begins = fault.begins(run)
    last = run.metrics().last("train/loss")
    steps = [begins + moment for moment in MOMENTS] if last is not None else []
    for step in steps:
        so_far = until(run, step, folder)
        if any(one.id in fault.names for one in findings(so_far)):
            return step - begins
        if last is not None and step >= last.step:
            break
    return None


def until(run: RunDirectory, step: int, folder: Path) -> RunDirectory:
    """Return a copy of a run's record as it was after a step, while it was being trained."""
    copy = folder / run.path.parent.parent.name / "runs" / "run"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    shutil.copy(run.path / "run.json", copy)
    shutil.copytree(run.artifacts, copy / "artifacts", ignore=shutil.ignore_patterns("summary.json", "*.onnx"))
    lines = [json.loads(line) for line in (run.path / EVENTS).read_text().splitlines()]
    kept = [line for line in lines if 0 < line["data"].get("step", 0) <= step and line["kind"] != "failed"]
    (copy / EVENTS).write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    shutil.copy(run.path / METRICS, copy / METRICS)
    with sqlite3.connect(copy / METRICS) as connection:
        connection.execute("DELETE FROM metrics WHERE step > ?", (step,))
    connection.close()
    copied = RunDirectory(copy)
    copied.write_status(RunStatus(state=RunState.RUNNING, attempt=1, step=step))
    return copied


def first_change(run: RunDirectory) -> dict[str, Any]:
    """Return the first change of the configuration that the monitor proposes for what it names first."""
    found = findings(run)
    return next((fix.changes for fix in found[0].fixes if fix.changes), {}) if found else {}


def is_cured(fault: Fault, before: RunDirectory, after: RunDirectory) -> bool:
    """Whether the changed run completed without the cause, and no worse by its lowest validation loss."""
    if after.status().state is not RunState.COMPLETED or any(one.id in fault.names for one in findings(after)):
        return False
    losses = [_lowest(run) for run in (before, after)]
    return fault.is_cost or losses[0] is None or (losses[1] is not None and losses[1] <= losses[0] * 1.02)


def _lowest(run: RunDirectory) -> float | None:
    values = [point.value for point in run.metrics().series("validation/loss")]
    finite = [value for value in values if math.isfinite(value)]
    return min(finite) if finite else None
