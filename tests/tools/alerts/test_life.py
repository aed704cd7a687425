"""Life of an alert: new, open, cleared, recurring, fixed, each by what run directories show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tools.alerts.conftest import EXPLODING, HEALTHY, LATER, RUN, write

from trainwright.tools import alerts
from trainwright.tools.alerts import Life, life_of
from trainwright.tools.projects.status import AlertLine
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run, Study
from trainwright.trainer.run import RunDirectory, RunKind, RunState

pytestmark = pytest.mark.requirement("DIAG-9")
TRIAL = "trial-digits-20260103-000000-abcdef"


def states(rows: list[Any]) -> dict[str, Life]:
    """The alerts' states by their diagnostics."""
    return {row.id: life_of(row) for row in rows if row.severity != "info"}


def test_an_alert_is_new_until_an_answer_has_carried_it(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any]
) -> None:
    write(made_run(RUN), HEALTHY + EXPLODING)
    assert states(look_at(RUN)) == {"exploding_gradients": Life.NEW}
    news, left, _ = alerts.take_news(workspace, {"digits"})
    assert [(one["run_id"], one["id"], one["state"]) for one in news] == [(RUN, "exploding_gradients", "new")]
    assert left == 0
    assert news[0]["document"] == "diagnostics/exploding_gradients.md"
    assert "configure(" in news[0]["fix"]
    assert alerts.take_news(workspace, {"digits"})[0] == []
    assert states(look_at(RUN)) == {"exploding_gradients": Life.OPEN}


def test_one_that_comes_and_goes_is_news_when_it_comes_and_when_it_first_comes_back(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any]
) -> None:
    directory = made_run(RUN)
    told = []
    for _ in range(3):
        directory.append_event("alert", id="loss_spike", severity="warning", step=3, measured=0.7)
        assert alerts.history(workspace, RUN) == [] or told
        (row,) = look_at(RUN)
        told.append(bool(alerts.take_news(workspace, ())[0]))
        directory.append_event("alert_cleared", id="loss_spike", step=5)
        assert states(look_at(RUN)) == {"loss_spike": Life.CLEARED}
    assert told == [True, True, False]
    assert row.times == 3
    assert alerts.history(workspace, RUN) == ["loss_spike: cleared, raised at step 3, raised 3 times"]


def test_one_that_grows_graver_is_news_again(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any]
) -> None:
    directory = made_run(RUN)
    directory.append_event("alert", id="loss_spike", severity="warning", step=3)
    look_at(RUN)
    assert alerts.take_news(workspace, ())[0]
    directory.append_event("alert", id="loss_spike", severity="critical", step=4)
    look_at(RUN)
    assert [one["severity"] for one in alerts.take_news(workspace, ())[0]] == ["critical"]


def test_fixed_is_told_apart_from_cleared_and_what_comes_back_after_it_is_recurring(
    workspace: Workspace,
    made_run: Callable[..., RunDirectory],
    look_at: Callable[..., Any],
    other_configuration: Callable[[str], None],
) -> None:
    write(made_run(RUN), HEALTHY + EXPLODING)
    look_at(RUN, state=RunState.COMPLETED)
    again, later = made_run(LATER.replace("-2026", "-2025")), made_run(LATER)
    write(later, HEALTHY)
    look_at(LATER, state=RunState.COMPLETED)
    assert states(look_at(RUN, state=RunState.COMPLETED)) == {"exploding_gradients": Life.NEW}, "the same configuration"
    other_configuration(LATER)
    look_at(LATER, state=RunState.STOPPED)
    assert alerts.history(workspace, RUN) == [], "it was not completed"
    shorter = made_run(LATER.replace("baseline", "ablation"), kind=RunKind.ABLATION)
    other_configuration(shorter.run_id)
    look_at(shorter.run_id, state=RunState.COMPLETED, step=0)
    assert alerts.history(workspace, RUN) == [], "it did not go as far"
    look_at(LATER, state=RunState.COMPLETED, step=1)
    assert alerts.history(workspace, RUN) == [f"exploding_gradients: fixed, {LATER} was completed without it"]
    last = made_run(LATER.replace("000000", "000001"))
    write(last, HEALTHY + EXPLODING)
    assert states(look_at(last.run_id)) == {"exploding_gradients": Life.RECURRING}
    assert "after an earlier configuration had fixed it" in alerts.history(workspace, last.run_id)[0]
    assert look_at(again.run_id) == []


@pytest.mark.parametrize(
    ("name", "fix"), [("loss_spike", "configure("), ("wrong_loss_input", "loss")], ids=["key", "own-code"]
)
def test_news_have_the_fix_as_a_call_or_in_the_documents_words(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any], name: str, fix: str
) -> None:
    made_run(RUN).append_event("alert", id=name, severity="warning", message="x", step=3)
    look_at(RUN)
    (one,) = alerts.take_news(workspace, ())[0]
    assert one["id"] == name
    assert fix in one["fix"]
    assert AlertLine.of(look_at(RUN)[0]).fix == one["fix"]


@pytest.mark.requirement("DIAG-9", "TUNE-5")
def test_news_of_a_trial_propose_no_change_of_the_configuration_that_is_searched(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any]
) -> None:
    made_run(TRIAL, kind=RunKind.TRIAL).append_event("alert", id="loss_spike", severity="warning", message="x", step=3)
    with workspace.session() as session:
        run = session.get(Run, TRIAL)
        assert run is not None
        session.add(
            Study(
                id="study-digits", project=run.project, search={}, objective={}, base_values={},
                base_config_digest=run.config_digest, state="running",
            )
        )  # fmt: skip
        session.flush()
        run.study = "study-digits"
    look_at(TRIAL)
    (one,) = alerts.take_news(workspace, ())[0]
    assert (one["run_id"], one["id"]) == (TRIAL, "loss_spike")
    assert "goes on by itself" in one["fix"]
    assert "configure(" not in one["fix"]


def test_an_alert_of_the_worker_has_its_documents_words_where_it_brings_none(
    made_run: Callable[..., RunDirectory], look_at: Callable[..., Any]
) -> None:
    directory = made_run(RUN)
    directory.append_event("alert", id="loss_spike", measured=0.7, step=3, severity="?", epoch="?")
    directory.append_event("alert", id="no_such_document")
    directory.append_event("alert")
    (row,) = look_at(RUN)
    assert (row.severity, row.step, row.epoch) == ("warning", 3, None)
    assert "0.7" in row.message


def test_what_is_left_over_is_carried_by_the_next_answer_and_other_projects_wait(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any]
) -> None:
    directory = made_run(RUN)
    for name in ("loss_spike", "exploding_gradients", "vanishing_gradients", "underfitting"):
        directory.append_event("alert", id=name, severity="critical", step=3)
    look_at(RUN)
    assert alerts.take_news(workspace, {"another"}) == ([], 0, 4)
    carried, left, _ = alerts.take_news(workspace, (), [(RUN, "loss_spike")])
    assert (len(carried), left) == (3, 0), "one is shown anyway"
    assert alerts.take_news(workspace, ()) == ([], 0, 0)


@pytest.mark.parametrize(("changed", "told"), [(False, False), (True, True)])
def test_the_same_alert_of_an_unchanged_configuration_is_news_once(
    workspace: Workspace, made_run: Callable[..., RunDirectory], look_at: Callable[..., Any],
    other_configuration: Callable[[str], None], *, changed: bool, told: bool,
) -> None:  # fmt: skip
    for run_id in (RUN, LATER):
        made_run(run_id).append_event("alert", id="loss_spike", severity="warning", step=3, measured=0.7)
    if changed:
        other_configuration(LATER)
    look_at(RUN)
    assert len(alerts.take_news(workspace, {"digits"})[0]) == 1
    assert states(look_at(LATER)).keys() == {"loss_spike"}, "it is recorded all the same"
    assert bool(alerts.take_news(workspace, {"digits"})[0]) is told
