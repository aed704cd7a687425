"""A run whose folder of code has moved cannot be resumed there, and says what can be done."""

from __future__ import annotations

import pytest
from tests.tools.training_orchestrator.conftest import make_project

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner.lost_workers import recorded_failures
from trainwright.tools.training_orchestrator import resume_run, start_run, stop_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

PROJECT = "moving"


@pytest.mark.requirement("TRAIN-10")
@pytest.mark.usefixtures("warm_start")
def test_a_run_whose_code_has_moved_starts_no_worker_where_nothing_is(workspace: Workspace) -> None:
    code = workspace.path.parent / "code"
    code.mkdir()
    make_project(workspace, PROJECT, code_root="code", training={"epochs": 10**6}, early_stopping={"enabled": False})
    run_id = start_run(workspace, PROJECT, RunKind.BASELINE).run_id
    while wait_for_run(workspace, run_id, after_step=0).step == 0:
        pass
    stop_run(workspace, run_id)
    while not wait_for_run(workspace, run_id).is_ended:
        pass
    code.rename(code.with_name("moved"))
    with pytest.raises(ConflictError, match="ordered in the folder 'code', which is not where it was") as caught:
        resume_run(workspace, run_id)
    assert f"start_training(project='{PROJECT}', kind='baseline')" in caught.value.remedy
    ended: list[tuple[str, str]] = []
    with recorded_failures("study-1", lambda state, error: ended.append((state, error.category))):
        resume_run(workspace, run_id)
    assert ended == [("stopped", "conflict")], "a study goes on when the folder is back"
    with workspace.session() as session:
        assert ledger.entries(session, PROJECT, "run_resumed") == []

    code.with_name("moved").rename(code)
    assert resume_run(workspace, run_id).attempt == 2
    stop_run(workspace, run_id)
    while not wait_for_run(workspace, run_id).is_ended:
        pass
