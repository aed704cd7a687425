"""The process that carries a study through: `python -P -m trainwright.tools.hyperparameter_tuner.conductor WS STUDY`.

All of its state is in the trial table and the run directories, so it may be killed at any instant and started again.
Suggestions and pruning are pure functions of the table; a trial that was under way is resumed. The trials of a wave run
side by side, each in a thread of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from filelock import Timeout

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner.ablation.conduct import conduct_ablation
from trainwright.tools.hyperparameter_tuner.confirmation import confirm
from trainwright.tools.hyperparameter_tuner.ends import end_early
from trainwright.tools.hyperparameter_tuner.halving import carry_out_bracket
from trainwright.tools.hyperparameter_tuner.lost_workers import recorded_failures
from trainwright.tools.hyperparameter_tuner.process import conductor_lock, study_folder
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import (
    FAILED,
    RUNNING,
    TrialRecord,
    best_trial,
    seen_by,
    side_by_side,
    trials_of,
    wave_of,
)
from trainwright.tools.hyperparameter_tuner.warm_start import known_trials
from trainwright.tools.launchers import await_warm
from trainwright.tools.ledger.events import StudyChanged, TrialEnded
from trainwright.tools.limits import require_trials
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_project, get_study
from trainwright.tools.workspace.tables import Study, Trial, now
from trainwright.trainer.base.errors import TrainwrightError, UserCodeError
from trainwright.trainer.config import SearchSection

HOPELESS_TRIALS = 3
"""When this many trials in a row from the start fail for one cause, the study ends with that cause."""
LOCK_SECONDS = 5.0
LONG_PATIENCE_SECONDS = 300.0
"""Nobody waits for a conductor, and a gate may hold the database while it reads large files."""


def main(arguments: Sequence[str]) -> int:
    """Conduct one study to its end; 0 also when another conductor has it already."""
    path, study_id = arguments
    await_warm()
    workspace = Workspace.open(Path(path), patience_seconds=LONG_PATIENCE_SECONDS)
    with workspace.session() as session:
        study = get_study(session, study_id)
        project, is_ablation = study.project, study.is_ablation
    try:
        with conductor_lock(study_folder(workspace, project, study_id)).acquire(timeout=LOCK_SECONDS):
            (conduct_ablation if is_ablation else conduct)(workspace, study_id)
    except Timeout:
        print(f"another conductor has {study_id}")  # noqa: T201 - into conductor.log
    finally:
        workspace.close()
    return 0


def conduct(workspace: Workspace, study_id: str) -> None:
    """Run the missing trials, then the confirmation; any failure is recorded in the study."""

    def fail(state: str, error: TrainwrightError) -> None:
        _end(workspace, study_id, state, failure=error.as_dict())

    with recorded_failures(study_id, fail):
        while not end_early(workspace.refreshed(), study_id) and (wave := next_wave(workspace, study_id)):
            _carry_out_wave(workspace, study_id, wave)
            _give_up_if_hopeless(workspace, study_id)
        if is_active(workspace, study_id):  # not stopped meanwhile
            confirmation = confirm(workspace, study_id)
            _end(workspace, study_id, "completed", confirmation=confirmation)


def _carry_out_wave(workspace: Workspace, study_id: str, wave: list[TrialRecord]) -> None:
    with workspace.session() as session:
        search = SearchSection.model_validate(get_study(session, study_id).search)
    if search.pruning.bracket is None:
        side_by_side(search.width, [partial(carry_out, workspace, study_id, trial) for trial in wave])
    else:
        carry_out_bracket(workspace, study_id, wave[0].number)


def is_active(workspace: Workspace, study_id: str) -> bool:
    """Return whether the study is still under way."""
    with workspace.session() as session:
        return get_study(session, study_id).state in ACTIVE


def next_wave(workspace: Workspace, study_id: str) -> list[TrialRecord]:
    """Return the trials that are to run side by side: those under way, and the new ones that complete their wave.

    None are left when the study has all its trials or was stopped.

    Raises:
        LimitReachedError: the limits do not leave the whole wave.
    """
    with workspace.snapshot() as session:
        study = get_study(session, study_id)
        trials, search = trials_of(session, study_id), SearchSection.model_validate(study.search)
        known = known_trials(session, search, study.base_values)
    if study.state not in ACTIVE:
        return []
    first = min((trial.number for trial in trials if trial.state == RUNNING), default=len(trials))
    new = _suggested(study, search, trials, known, until=min(wave_of(first, search.wave).stop, search.trials))
    with workspace.session() as session:
        if get_study(session, study_id).state not in ACTIVE:  # stopped while the method computed
            return []
        if new:
            end = len(trials) + len(new)
            require_trials(session, workspace, get_project(session, study.project), study_id, end)
        session.add_all(_row(study_id, trial) for trial in new)
    return [trial for trial in (*trials, *new) if trial.state == RUNNING]


def _suggested(
    study: Study, search: SearchSection, trials: Sequence[TrialRecord], known: Sequence[TrialRecord], *, until: int
) -> list[TrialRecord]:
    """Return the trials up to number `until`: outside of any transaction, for a method may take seconds."""
    new: list[TrialRecord] = []
    while (number := len(trials) + len(new)) < until:
        seen = seen_by(number, search.wave, [*trials, *new])
        direction, base = study.objective["direction"], study.base_values
        parameters, attributes = suggest(search, direction, seen, base_values=base, known=known)
        new.append(TrialRecord(number=number, parameters=parameters, attributes=attributes))
    return new


def _row(study_id: str, trial: TrialRecord) -> Trial:
    return Trial(
        study=study_id,
        number=trial.number,
        parameters=trial.parameters,
        attributes=trial.attributes,
        intermediate={},
        state=trial.state,
    )


def _give_up_if_hopeless(workspace: Workspace, study_id: str) -> None:
    with workspace.session() as session:
        trials = trials_of(session, study_id)
    first = trials[:HOPELESS_TRIALS]
    causes = {(trial.attributes.get("cause") or {}).get("category") for trial in first}
    is_end = len(trials) >= HOPELESS_TRIALS
    if is_end and all(trial.state == FAILED for trial in first) and len(causes) == 1:
        cause = first[-1].attributes.get("cause") or {}
        raise UserCodeError(
            f"The first {HOPELESS_TRIALS} trials all failed for the same cause ({cause.get('category')}): "
            f"{cause.get('message')}",
            remedy=str(
                cause.get("remedy") or "Correct the configuration or narrow the space, then start_tuning again."
            ),
            details={"cause": cause, "runs": [trial.run for trial in first]},
        )


def _end(
    workspace: Workspace,
    study_id: str,
    state: str,
    *,
    confirmation: dict[str, Any] | None = None,
    failure: dict[str, Any] | None = None,
) -> None:
    with workspace.session() as session:
        study = get_study(session, study_id)
        if study.state not in ACTIVE:
            return
        trials = trials_of(session, study_id)
        objectives = SearchSection.model_validate(study.search).objectives
        best = best_trial(trials, study.objective["direction"], objectives)
        ended = StudyChanged(
            study_id=study_id, state=state, trials=[_line(trial) for trial in trials],
            best=best.number if best else None, confirmation=confirmation, failure=failure, ended_at=now(),
        )  # fmt: skip
        ledger.record(session, study.project, ended)


def _line(trial: TrialRecord) -> TrialEnded:
    """Return the trial's outcome by its row, in the ledger's form."""
    line = {name: getattr(trial, name) for name in ("number", "parameters", "state", "value", "run", "further")}
    return TrialEnded(**line, intermediate={str(epoch): value for epoch, value in trial.intermediate.items()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
