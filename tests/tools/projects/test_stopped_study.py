"""A study says how long it takes by measured runs, and can be stopped: the project goes on from there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.worlds.scripted import scripted

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.searches import middle_seconds
from trainwright.tools.hyperparameter_tuner import start_study, stop_study
from trainwright.tools.ledger import entries
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError

pytestmark = pytest.mark.slow

NAME = "flowers"
SEARCH = {
    "trials": 4,
    "confirmation_repeats": 3,
    "pruning": {"name": "none"},
    "space": {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1, "log": True}},
}


@pytest.mark.requirement("TUNE-5", "PHASE-10")
def test_a_study_is_estimated_by_measured_seconds_and_stopped_and_the_project_goes_on(
    at: Callable[[str], Workspace],
) -> None:
    workspace = at("diagnosed")
    with workspace.session() as session:
        baseline = Evidence(session, workspace, NAME).baseline
        assert baseline is not None
        seconds = middle_seconds([baseline.row])
    assert seconds is not None
    assert seconds > baseline.summary.train_seconds, "with the start of its process"
    with scripted() as launcher:
        launcher.is_conducting = False
        begun = start_study(workspace, NAME, search=SEARCH)
    assert begun.estimated_seconds is not None
    runs = begun.estimated_seconds / seconds
    assert runs == pytest.approx(4 + 2 * 3, rel=0.02), "trials, and two repetitions for each seed"

    with pytest.raises(ConflictError, match="belongs to project 'flowers', not to 'other'"):
        stop_study(workspace, begun.study_id, project="other")
    stopped = stop_study(workspace, begun.study_id, project=NAME)
    assert (stopped.state, stopped.estimated_seconds) == ("stopped", None)
    assert stopped.next is not None
    assert (stopped.next.tool, stopped.next.arguments["search"]["trials"]) == ("start_tuning", 4)
    assert "after 0 trials, which passing the gate discards; pass_gate(" in stopped.next.why, "who decides knows"
    with workspace.session() as session:
        told = entries(session, NAME, "study")[-1][1]
        assert told == {"study_id": begun.study_id, "state": "stopped", "ended_at": told["ended_at"]}
