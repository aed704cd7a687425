"""Call that completes a run, or follows one that failed."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.cures import tried_on, untried
from trainwright.tools.gates.overlay import is_of_export
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.launchers import is_living
from trainwright.tools.ledger.aliases import PRODUCTION, in_production
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.owner.grants import accepted_alerts
from trainwright.tools.training_monitor.diagnosis import diagnose
from trainwright.trainer.base.errors import GateRefusedError, StorageError
from trainwright.trainer.base.read_tracking import note_fleeting
from trainwright.trainer.base.text import cut
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config.later_words import FILES, asked_later
from trainwright.trainer.run import Failure, RunKind, RunState
from trainwright.trainer.run.conditions import alert_behind

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence

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
    if room := make_room(run.row.project, path, 2 * max(sizes, default=0), then):
        return room
    own = {"project": run.row.project, "run_id": run.id}
    return NextCall(tool="resume_training", arguments=own, why="the disk was full, and has room again")


def make_room(project: str, path: Path, needed_bytes: int, then: str) -> NextCall | None:
    """Name the call that frees the disk at `path`; None once that much is free beside MIN_FREE_BYTES.

    Args:
        then: what goes on after it, in words.
    """
    note_fleeting()  # room comes and goes without a write to the database
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


# Later steps that the intent names, behind the release: another version, a comparison, a version put in use.

CHANGED = (
    "v1 stays. `changes` of the same call say what differs; rows are added by making data.args.path a list that keeps "
    "the old file, after models(score=FILE) where new labelled rows are to be scored before they are trained on"
)


def later_call(evidence: Evidence, *, is_scored: bool = False) -> NextCall | None:
    """Return the first call of a finished project's later steps that has not been made; None where nothing is left.

    What to train on is left to the reader of the sentence. A comparison, or a score, leaves no record: it is named
    until production was moved, or its gate refused to, since the newest version came.

    Args:
        is_scored: whether this answers the score of a later file.
    """
    later = asked_later(evidence.project.intent, str(evidence.version.values.get("data", "a task")))
    versions = [(sequence, body["version"]) for sequence, body in evidence.entries(ModelRegistered.name)]
    if later is None or not versions:
        return None
    said, steps = f"the intent goes on: {cut(later.words, 200)!r}", later.steps - ({"scored"} if is_scored else set())
    root, names = Path(evidence.project.code_root), set(FILES.findall(later.words))
    is_named = "scored" in steps and len(names) == 1 and all((root / name).is_file() for name in names)
    score = {"score": names.pop()} if is_named else {}
    if "again" in steps and len(versions) == 1:
        first = evidence.call("models", f"{said}; then configure(begin_release=true)", **score)
        return first if score else evidence.call("configure", f"{said}; {CHANGED}", begin_release=True)
    moves = evidence.entries(ModelPromoted.name)
    if any(sequence > versions[-1][0] and body["alias"] == PRODUCTION for sequence, body in moves):
        return None
    held, newest = in_production(moves), versions[-1][1]
    if "again" in steps and steps & {"compared", "promoted"}:
        stays = f"v{held} stays in production unless promote_model moves it"
        then = "promote_model then puts the one you choose in production" if held is None else stays
        return evidence.call("models", f"{said}; {then}", compare=[f"v{held or versions[-2][1]}", f"v{newest}"])
    if "promoted" in steps and held is None:
        return evidence.call("promote_model", said, version=f"v{newest}")
    why = said if score else f"{said}; models(score=FILE) evaluates a version on a labelled file"
    return evidence.call("models", why, **score) if "scored" in steps and held is None else None


# Rule that one run with changes is tried before a second one is started beside it.
#
# Planning's smoke run has tried the configuration itself; an ablation trains another one. Once any ablation of the
# project has trained a step, several may run at once.

CHANGING = frozenset({RunKind.ABLATION, RunKind.LEAK_PRICE})
"""Kinds that train another configuration than the one that planning tried."""
DOCUMENT = "phases/04_optimization/workflow.md"


def require_tried(evidence: Evidence, kind: RunKind) -> None:
    """Refuse a run of changes beside the project's first one of its kind, until that has trained a step or ended.

    Raises:
        GateRefusedError: with the call that waits for the first; it is never longer than that run's start.
    """
    first = _untried(evidence, kind) if kind in CHANGING else None
    if first is None:
        return
    call = NextCall(
        tool="run_status", arguments={"run_id": first.id, "wait_seconds": 50}, why="one is tried before the rest"
    )
    raise GateRefusedError(
        f"{first.id} is the first {kind.value} run and has not trained a step yet; a mistake in it would be made again "
        "by every further one.",
        remedy=f"{call}; then start this one.",
        document=DOCUMENT,
        details={"run": first.id, "next": call.model_dump(mode="json")},
    )


def _untried(evidence: Evidence, kind: RunKind) -> RunEvidence | None:
    """Return the run of the kind that is under way, where none of the kind has trained a step."""
    ids = [run_id for run_id, start in evidence.facts.started.items() if start.kind == kind.value and not start.study]
    runs = [run for run_id in ids if (run := evidence.run(run_id)) is not None]
    if any(run.status.step > 0 for run in runs):
        return None
    return next((run for run in runs if is_living(run.directory)), None)
