"""What an agent is told of a run: the facts that it can act on, and nothing of our own inside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import event

from trainwright.tools.launchers import Launch
from trainwright.tools.ledger import append
from trainwright.tools.training_orchestrator import refresh_run, resume_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.base import file_stamps
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import Failure, RunDirectory, RunKind, RunState


@pytest.mark.parametrize(("category", "shown"), [("user_code", []), ("data", []), ("error", ["our own frames"])])
def test_the_log_is_shown_only_where_nothing_else_tells_the_cause(
    workspace: Workspace, made_run: Callable[..., RunDirectory], category: str, shown: list[str]
) -> None:
    failure = Failure(category=category, message="m" * 700, remedy="correct it")
    directory = made_run(state=RunState.FAILED, failure=failure)
    directory.log.write_text("our own frames\n")
    view = refresh_run(workspace, directory.run_id)
    assert view.failure is not None
    assert view.failure.last_lines == shown
    assert len(view.failure.message) == 500


@pytest.mark.requirement("PHASE-10")
@pytest.mark.parametrize(("kind", "is_diagnosed"), [(RunKind.BASELINE, True), (RunKind.EXPORT, False)])
def test_a_failed_export_has_no_curves_and_is_not_sent_to_be_diagnosed(
    workspace: Workspace, made_run: Callable[..., RunDirectory], kind: RunKind, *, is_diagnosed: bool
) -> None:
    failure = Failure(category="configuration", message="no ONNX", remedy="Leave it out.")
    view = refresh_run(workspace, made_run(kind=kind, state=RunState.FAILED, failure=failure).run_id)
    assert view.next is not None
    assert (view.next.tool == "diagnose_run") is is_diagnosed


@pytest.mark.requirement("DIAG-9", "DIAG-11")
@pytest.mark.parametrize(
    ("alert", "tool"), [("exploding_gradients", "configure"), ("underfitting", "diagnose_run")], ids=["fix", "no fix"]
)
def test_a_run_that_an_alert_stopped_names_the_change_that_fixes_it(
    workspace: Workspace, made_run: Callable[..., RunDirectory], alert: str, tool: str
) -> None:
    document = f"diagnostics/{alert}.md"
    failure = Failure(
        category="alert", message=f"{alert} ended the run.", remedy="…", document=document, details={"id": alert}
    )
    directory = made_run(state=RunState.FAILED, failure=failure, step=9)
    with directory.metrics(writer=True) as store:
        store.write([("train/gradient_norm", step, 1e6, 0.0) for step in range(1, 10)])
    view = refresh_run(workspace, directory.run_id)
    assert view.failure is not None
    assert (view.failure.category, view.failure.document) == ("alert", document)
    assert view.next is not None
    assert view.next.tool == tool
    if tool == "configure":
        assert view.next.arguments["changes"] == {"training.clip_norm": 1.0}
        with pytest.raises(ConflictError, match="would fail again"):
            resume_run(workspace, directory.run_id)


@pytest.mark.requirement("TRAIN-7")
@pytest.mark.parametrize("kind", [RunKind.SMOKE, RunKind.BASELINE])
def test_a_smoke_run_says_what_it_does_otherwise_than_the_code(
    workspace: Workspace, made_run: Callable[..., RunDirectory], kind: RunKind
) -> None:
    directory = made_run(kind=kind, state=RunState.RUNNING)
    for text in ("150 of the 300 evaluation rows are held back as the test", "x" * 300, "x" * 300):
        directory.append_event("note", text=text, framework="transformers", what="changed")
    for number in range(20):
        directory.append_event("note", text=f"callback {number} is left out")
    notes = refresh_run(workspace, directory.run_id).notes
    if kind is RunKind.BASELINE:
        assert notes is None, "once is enough"
    else:
        assert notes is not None
        assert notes[:2] == ["150 of the 300 evaluation rows are held back as the test", "x" * 200]
        assert notes[2:] == [f"callback {number} is left out" for number in range(6)]


@pytest.mark.requirement("TRAIN-10")
def test_a_resumed_run_says_what_it_began_from(workspace: Workspace, made_run: Callable[..., RunDirectory]) -> None:
    directory = made_run(state=RunState.STOPPED, attempt=2, step=9, launch=Launch(attempt=2))
    directory.append_event("started", attempt=1)
    assert refresh_run(workspace, directory.run_id).resumed is None, "the second attempt has not begun"
    directory.append_event("started", attempt=2)
    torn = [{"name": "step-8", "problems": ["model.safetensors: digest differs"]}]
    directory.append_event("resumed", from_checkpoint="step-4", step=4, skipped=torn)
    resumed = refresh_run(workspace, directory.run_id).resumed
    assert resumed is not None
    assert (resumed.from_checkpoint, resumed.step, resumed.note) == ("step-4", 4, None)
    assert resumed.skipped == ["step-8: model.safetensors: digest differs"]


@pytest.mark.requirement("TRAIN-10")
@pytest.mark.parametrize("skipped", [[], [{"name": "step-4", "problems": ["manifest.json is missing"]}]])
def test_a_resumed_run_without_a_whole_checkpoint_says_so(
    workspace: Workspace, made_run: Callable[..., RunDirectory], skipped: list[dict[str, object]]
) -> None:
    directory = made_run(state=RunState.STOPPED, attempt=2, step=3, launch=Launch(attempt=2))
    directory.append_event("started", attempt=2)
    if skipped:
        directory.append_event("note", text="No checkpoint is whole.", skipped=skipped)
    resumed = refresh_run(workspace, directory.run_id).resumed
    assert resumed is not None
    assert resumed.note == "no intact checkpoint: began at step 0"
    assert len(resumed.skipped) == len(skipped)


def test_the_loss_beside_validation_is_the_epochs_and_not_its_last_batchs(
    workspace: Workspace, made_run: Callable[..., RunDirectory]
) -> None:
    directory = made_run(state=RunState.RUNNING, step=8)
    losses = [("train/loss", 8, 0.9, 0.0), ("train/epoch_loss", 8, 0.4, 0.0), ("validation/loss", 8, 0.5, 0.0)]
    with directory.metrics(writer=True) as store:
        store.write(losses)
    assert refresh_run(workspace, directory.run_id).metrics == {"train/epoch_loss": 0.4, "validation/loss": 0.5}
    with directory.metrics(writer=True) as store:
        store.write([("train/loss", 9, 0.3, 0.0)])  # the next epoch has begun
    shown = refresh_run(workspace, directory.run_id).metrics
    assert shown == {"train/loss": 0.3, "train/epoch_loss": 0.4, "validation/loss": 0.5}


@pytest.mark.requirement("DIAG-10")
def test_a_fix_that_was_tried_in_vain_is_not_named_again(
    workspace: Workspace, made_run: Callable[..., RunDirectory]
) -> None:
    failure = Failure(category="alert", message="It ended.", remedy="…", details={"id": "exploding_gradients"})
    directory = made_run(state=RunState.FAILED, failure=failure, step=9)
    with directory.metrics(writer=True) as store:
        store.write([("train/gradient_norm", step, 1e6, 0.0) for step in range(1, 10)])
    first = refresh_run(workspace, directory.run_id).next
    assert first is not None
    with workspace.session() as session:
        run = get_run(session, directory.run_id)
        in_vain = {"fix": "clip_gradients", "changes": first.arguments["changes"], "cured": False, "why": "no"}
        body = {"cure_id": "cure-1", "state": "ended", "run_id": run.id, "alert": "exploding_gradients",
                "config_digest": run.config_digest, "outcomes": [in_vain]}  # fmt: skip
        append(session, run.project, "cure", body)
    then = refresh_run(workspace, directory.run_id).next
    assert then is not None
    assert then.arguments.get("changes") != first.arguments["changes"]
    assert then.tool == "configure"


@pytest.mark.requirement("MON-4")
def test_a_run_of_which_nothing_is_new_is_shown_without_a_question_to_the_database(
    workspace: Workspace, made_run: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 0)  # else what was written in the last two seconds is read anew
    directory = made_run(state=RunState.STOPPED)
    asked: list[str] = []
    event.listen(workspace._engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    first = refresh_run(workspace, directory.run_id)
    assert asked
    refresh_run(workspace, directory.run_id)
    asked.clear()
    assert refresh_run(workspace, directory.run_id) == first
    assert asked == []
    with workspace.session() as session:
        get_run(session, directory.run_id).label = "renamed"
    assert refresh_run(workspace, directory.run_id).label == "renamed"
