"""Call that completes a run, or follows one that failed."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.cures import tried_on, untried
from trainwright.tools.gates.overlay import is_of_export
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.owner.grants import accepted_alerts
from trainwright.tools.training_monitor.diagnosis import diagnose
from trainwright.trainer.base.errors import StorageError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import Failure, RunKind, RunState
from trainwright.trainer.run.conditions import alert_behind

MAX_ATTEMPTS = 3
"""A run that was interrupted so often is not resumed once more: something in it ends the process."""
MAX_CHARACTERS = 300
MIN_FREE_BYTES = 64 * 2**20
"""Free disk space that a run (beside two checkpoints) or study takes to go on after it met a full disk."""


def onward(run: RunRecords) -> NextCall:
    """Return the call that completes a run, or starts another after the cause of its failure is fixed."""
    state, status = run.status.state, run.status
    if state in {RunState.STOPPED, RunState.FAILED} and (call := after_alert(run)) is not None:
        return call
    stopped_late = state is RunState.STOPPED and not run.lacks_rows
    resumable = stopped_late or (state is RunState.INTERRUPTED and status.attempt < MAX_ATTEMPTS)
    if resumable:
        own = {"project": run.row.project, "run_id": run.id}
        return NextCall(tool="resume_training", arguments=own, why=f"the run is {state.value}")
    if state is RunState.FAILED and status.failure is not None:
        call = _after_failure(run, status.failure)
        if call is not None:
            return call
    if state.is_terminal and not run.is_sealed:  # it ended unobserved: run_status files and seals it
        return NextCall(tool="run_status", arguments={"run_id": run.id}, why="the run has ended, and is not filed")
    if state.is_ended:
        cause = status.failure.remedy if status.failure else f"it was interrupted {status.attempt} times"
        unfixed = "it was stopped before it had fixed the rows, which only a first attempt can"
        why = unfixed if state is RunState.STOPPED else f"after fixing the cause: {cause}"
        return _again(run, why[:MAX_CHARACTERS])
    arguments = {"run_id": run.id, "wait_seconds": 50}
    return NextCall(tool="run_status", arguments=arguments, why=f"the run is {state.value}")


def _fixing(run: RunRecords, changes: dict[str, Any], failure: Failure) -> NextCall:
    """Name the change that fixes a failure."""
    why = f"fixes the failure: {failure.remedy}"[:MAX_CHARACTERS]
    if all(map(is_of_export, changes)):
        why = f"nothing is trained anew for it, the export alone is repeated: {failure.remedy}"[:MAX_CHARACTERS]
    arguments = {"project": run.row.project, "changes": changes, "reason": f"{run.id}: {failure.category}"}
    return NextCall(tool="configure", arguments=arguments, why=why)


def _after_failure(run: RunRecords, failure: Failure) -> NextCall | None:
    """Return the call that the kind of failure asks for; None where it is only to be started again."""
    if failure.category == StorageError.category:
        return _after_full_disk(run)
    changes = failure.details.get("changes")
    return _fixing(run, changes, failure) if changes else None


def after_alert(run: RunRecords) -> NextCall | None:
    """Name the first change not yet tried that fixes the alert which ended a run, or the resuming of an accepted one.

    None where no alert ended it, or no key can make a change.
    """
    if (name := alert_behind(run.status)) is None:
        return None
    own = {"project": run.row.project, "run_id": run.id}
    if name in accepted_alerts(run.project.grants):
        return NextCall(tool="resume_training", arguments=own, why=f"the owner accepts {name}, which ended the run")
    alert = next((one for one in diagnose(run.directory) if one.id == name), None)
    fixes = untried(alert.model_dump(mode="json"), tried_on(run.project, name, run.row.config_digest)) if alert else []
    if not fixes:
        return None
    arguments = {"project": run.row.project, "changes": fixes[0]["changes"], "reason": f"{run.id}: {name}"}
    why = f"{name} stopped the run. {fixes[0]['text']}"[:MAX_CHARACTERS]
    if run.status.state is RunState.STOPPED:
        why += f" resume_training(run_id={run.id!r}) goes on without it."
    return NextCall(tool="configure", arguments=arguments, why=why)


def _after_full_disk(run: RunRecords) -> NextCall:
    """Name the call that frees the disk; once there is room for two checkpoints, the one that resumes the run."""
    sizes = [record.bytes for record in list_checkpoints(run.directory)]
    path, then = run.directory.path, "resume_training goes on with the run"
    run.project.inspection.sources.are_fleeting = True  # room comes and goes without a write to the database
    if room := make_room(run.row.project, path, 2 * max(sizes, default=0), then):
        return room
    own = {"project": run.row.project, "run_id": run.id}
    return NextCall(tool="resume_training", arguments=own, why="the disk was full, and has room again")


def make_room(project: str, path: Path, needed_bytes: int, then: str) -> NextCall | None:
    """Name the call that frees the disk at `path`; None once that much is free beside MIN_FREE_BYTES.

    Args:
        then: what goes on after it, in words.
    """
    free, least = shutil.disk_usage(path).free, MIN_FREE_BYTES + needed_bytes
    if free >= least:
        return None
    room = f"{free / 2**20:.0f} MiB free of the {math.ceil(least / 2**20)} MiB that it takes to go on"
    why = f"the disk is full ({room}): it shows which weights can go; then {then}"
    return NextCall(tool="prune_checkpoints", arguments={"project": project}, why=why)


def _again(run: RunRecords, why: str) -> NextCall:
    project = {"project": run.row.project}
    if run.row.kind == RunKind.REPLAY:
        return NextCall(tool="verify_reproducibility", arguments=project, why=why)
    if run.row.kind == RunKind.EXPORT:
        return NextCall(tool="export_model", arguments=project, why=why)
    overlay = run.facts.overlay(run.id)
    again = {"kind": run.row.kind, **({"changes": overlay} if overlay else {})}
    return NextCall(tool="start_training", arguments={**project, **again}, why=why)
