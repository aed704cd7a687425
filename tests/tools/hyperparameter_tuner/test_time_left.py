"""Time that a study still takes, by the recorded times of runs, and studies of a configuration across versions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import start_study, tuning_report
from trainwright.tools.hyperparameter_tuner.time_left import PRUNED_SHARE, estimated_seconds
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED
from trainwright.tools.ledger.events import StudyChanged
from trainwright.tools.workspace.records import get_study, latest_config
from trainwright.tools.workspace.tables import Run, Trial, now
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.usefixtures("by_hand")

RATE = {"type": "float", "low": 1e-4, "high": 1e-1, "log": True}
SEARCH: dict[str, Any] = {
    "trials": 4, "width": 2, "space": {"optimizer.learning_rate": RATE}, "pruning": {"name": "none"},
}  # fmt: skip
OLD = "blake3:of-an-earlier-version"


def add_run(session: Session, name: str, seconds: float, digest: str, **fields: Any) -> None:
    began = now()
    fields = {"kind": RunKind.BASELINE, "state": RunState.COMPLETED, "config_digest": digest} | fields
    ended = began + timedelta(seconds=seconds)
    session.add(Run(id=name, project="digits", base_config_digest=digest, seed=1, created_at=began, ended_at=ended,
                    **fields))  # fmt: skip
    session.flush()


def add_trial(session: Session, study_id: str, number: int, seconds: float, state: RunState) -> None:
    name = f"trial-{number}"
    add_run(session, name, seconds, "", kind=RunKind.TRIAL, state=state, study=study_id)
    outcome = COMPLETED if state is RunState.COMPLETED else PRUNED
    session.add(Trial(study=study_id, number=number, parameters={}, attributes={}, intermediate={}, state=outcome,
                      run=name))  # fmt: skip
    session.flush()


@pytest.mark.requirement("TUNE-4", "TUNE-5")
def test_the_baseline_and_the_studies_of_an_earlier_version_count_as_of_the_same_configuration(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    """A key of the schema that came later, with its default, gives the same configuration another digest."""
    make_project(workspace)
    study_id = start_study(workspace, "digits", search=SEARCH).study_id
    with workspace.session() as session:
        study = get_study(session, study_id)
        for name, digest in (("study-digits-of-old", OLD), ("study-digits-of-another", "blake3:another")):
            body = StudyChanged(
                study_id=name, state="stopped", search=study.search, objective=study.objective,
                base_config_digest=digest, created_at=now(),
            )  # fmt: skip
            ledger.record(session, "digits", body)
        add_run(session, "baseline-of-another", 77.0, "blake3:another")
        assert estimated_seconds(session, study) is None
        assert "has run 1 study on this configuration" in tuning_report(session, workspace, study)

        latest_config(session, "digits").digest = OLD
        add_run(session, "baseline-of-old", 10.0, OLD)
        assert estimated_seconds(session, study) == 10.0 * (2 + 3), "two waves of trials, three of six repetitions"
        for one in (study, get_study(session, "study-digits-of-old")):
            assert "has run 2 studies on this configuration" in tuning_report(session, workspace, one)


@pytest.mark.requirement("TUNE-5")
def test_repetitions_are_timed_by_what_ran_to_its_end_and_not_by_pruned_trials(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace)
    study_id = start_study(workspace, "digits", search=SEARCH | {"pruning": {"name": "median"}}).study_id
    with workspace.session() as session:
        study = get_study(session, study_id)
        add_run(session, "baseline", 10.0, study.base_config_digest)
        assert estimated_seconds(session, study) == 10.0 * (2 * PRUNED_SHARE + 3), "nothing prunes a repetition"
        for number in (0, 1):
            add_trial(session, study_id, number, 2.0, RunState.STOPPED)
        assert estimated_seconds(session, study) == 1 * 2.0 + 3 * 10.0
        add_trial(session, study_id, 2, 8.0, RunState.COMPLETED)
        assert estimated_seconds(session, study) == 1 * 2.0 + 3 * 8.0
