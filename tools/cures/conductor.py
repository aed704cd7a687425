"""The process that tries fixes: `python -P -m trainwright.tools.cures.conductor WORKSPACE PROJECT CURE`.

All of its state is in the ledger and the run directories, so it may be killed at any instant and started again: each
run has a key of its own, and the one that was under way is followed, or resumed.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from filelock import Timeout

import trainwright
from trainwright.tools import ledger
from trainwright.tools.cures.start import cure_folder
from trainwright.tools.gates.cures import ENDED, RUNNING, STOPPED, cures_of, run_key
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.follow_run import run_to_end, start_when_there_is_room
from trainwright.tools.hyperparameter_tuner.process import conductor_lock
from trainwright.tools.ledger.events import CureChanged
from trainwright.tools.training_monitor import Goal, diagnostics_digests
from trainwright.tools.training_monitor.pairs import Pair, PairOutcome
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import now
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, TrainwrightError
from trainwright.trainer.run import RunDirectory, RunKind, RunState

TO_THE_END = {"on_critical": "tell", "on_warning": "tell"}
"""How the runs of a trial answer to alerts: both of a pair are compared at the same step."""
LOCK_SECONDS = 5.0
LONG_PATIENCE_SECONDS = 300.0
"""Nobody waits for this process, and a gate may hold the database while it reads large files."""


def main(arguments: Sequence[str]) -> int:
    """Carry one trial of fixes to its end; 0 also when another process has it already."""
    path, project, cure_id = arguments
    workspace = Workspace.open(Path(path), patience_seconds=LONG_PATIENCE_SECONDS)
    try:
        with conductor_lock(cure_folder(workspace, project, cure_id)).acquire(timeout=LOCK_SECONDS):
            conduct(workspace, project, cure_id)
    except Timeout:
        print(f"another process has {cure_id}")  # noqa: T201 - into conductor.log
    finally:
        workspace.close()
    return 0


def conduct(workspace: Workspace, project: str, cure_id: str) -> None:
    """Run the missing runs one after the other and record what each fix did; any failure is recorded too."""
    cure, goal = _cure(workspace, project, cure_id)
    if cure.state != RUNNING:
        return
    try:
        _end(workspace, project, cure_id, ENDED, outcomes=_outcomes(workspace, project, cure, goal))
    except TrainwrightError as error:  # no permit, no room, a run that was stopped: it can be tried again
        _end(workspace, project, cure_id, STOPPED, failure=error.as_dict())
    except Exception as error:
        traceback.print_exc()
        failure = TrainwrightError(
            f"The trial of fixes failed: {type(error).__name__}: {error}",
            remedy=f"Read cures/{cure_id}/conductor.log in the project folder, then try again.",
        )
        _end(workspace, project, cure_id, STOPPED, failure=failure.as_dict())
        raise


def _outcomes(workspace: Workspace, project: str, cure: CureChanged, goal: Goal) -> list[PairOutcome]:
    config = workspace.run_directory(project, cure.run_id).specification().config
    values = config.model_dump(mode="json")
    values["monitoring"] = values["monitoring"] | TO_THE_END
    control = _run(workspace, project, cure, values, None)
    pair = Pair(control, cure.alert, goal)
    found: list[PairOutcome] = []
    for fix in cure.fixes if pair.shown is not None else []:
        try:
            found.append(pair.outcome(_run(workspace, project, cure, values, fix), fix))
        except ConfigurationError as error:  # a value that does not go with the others
            found.append(PairOutcome(fix=fix["id"], changes=fix["changes"], cured=None, why=error.message))
    if pair.shown is None:
        found = [pair.not_shown(fix, cure.steps) for fix in cure.fixes]
    return found


def _run(
    workspace: Workspace, project: str, cure: CureChanged, values: dict[str, Any], fix: dict[str, Any] | None
) -> RunDirectory:
    """Train one run of the trial to its end; one that began before is followed. Raises ConflictError if cut short."""
    view = start_when_there_is_room(
        workspace,
        project,
        RunKind.CURE,
        base=values,
        changes=fix["changes"] if fix else {},
        source_run=cure.run_id,
        max_steps=cure.steps,
        idempotency_key=run_key(cure.cure_id, fix["id"] if fix else None),
        label=f"{cure.alert}: {fix['id'] if fix else 'without a fix'}",
    )
    seen = run_to_end(workspace, view.run_id, lambda *_: None)
    if seen.state in {RunState.STOPPED, RunState.INTERRUPTED}:
        raise ConflictError(
            f"{view.run_id} is {seen.state.value} ({seen.status.stop_reason or 'its process was lost'}).",
            remedy=f"diagnose_run(run_id='{cure.run_id}', fix='try') begins again.",
        )
    return workspace.run_directory(project, view.run_id)


def _cure(workspace: Workspace, project: str, cure_id: str) -> tuple[CureChanged, Goal]:
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        cure = next(one for one in cures_of(evidence) if one.cure_id == cure_id)
        return cure, Goal.model_validate(evidence.project.goal)


def _end(
    workspace: Workspace,
    project: str,
    cure_id: str,
    state: str,
    *,
    outcomes: list[PairOutcome] | None = None,
    failure: dict[str, Any] | None = None,
) -> None:
    recorded = [one.model_dump(mode="json") for one in outcomes or []]
    with workspace.session() as session:
        ended = CureChanged(
            cure_id=cure_id, state=state, outcomes=recorded, version=trainwright.__version__,
            documents=diagnostics_digests(), failure=failure, ended_at=now(),
        )  # fmt: skip
        ledger.record(session, project, ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
