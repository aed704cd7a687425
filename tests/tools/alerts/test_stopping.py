"""Stops for alerts that only the server finds: requested once, as configured, and never for what was accepted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.tools.alerts.conftest import RUN, running, write

from trainwright.tools import ledger
from trainwright.tools.alerts import look, looking
from trainwright.tools.owner.requests import record, requests_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.run import RunDirectory, RunState, write_atomically
from trainwright.trainer.run.conditions import AlertStop, request_alert_stop, requested_alert_stop

pytestmark = pytest.mark.requirement("DIAG-11", "MON-1")
STEPS = 60
CAUSE = "exploding_gradients"


def curves(first: int, *, lost: bool) -> list[tuple[str, int, float, float]]:
    """A loss that falls for a while, and where it is lost comes back up, under gradients that are far too large."""
    rows: list[tuple[str, int, float, float]] = []
    for step in range(first, first + STEPS):
        loss = 1.0 - 0.015 * step if step < STEPS or not lost else 0.95
        rows += [("train/gradient_norm", step, 1e5, time.time()), ("train/loss", step, max(loss, 0.05), time.time())]
    return rows


@pytest.fixture
def run(made_run: Callable[..., RunDirectory]) -> RunDirectory:
    """A run that lost what it had learned."""
    directory = made_run(RUN, state=RunState.RUNNING)
    write(directory, curves(1, lost=False) + curves(STEPS, lost=True))
    return directory


@pytest.fixture
def looked(workspace: Workspace, run: RunDirectory) -> Callable[..., AlertStop | None]:
    """Look once more after more was recorded, and give what is requested of the attempt."""
    recorded = [2 * STEPS]

    def look_again(*, anew: bool = False, steps: int = STEPS, **status: Any) -> AlertStop | None:
        if anew:
            looking._RUNS.clear()  # as another process does that never looked
        for known in looking._RUNS.get(workspace, {}).values():
            known.due = 0.0
        write(run, curves(recorded[0], lost=True)[: 2 * steps])
        recorded[0] += steps
        with workspace.session() as session:
            row = get_run(session, RUN)
        now = running(**{"step": recorded[0], **status})
        look(workspace, row, now)
        return requested_alert_stop(run, now.attempt)

    return look_again


def set_policy(run: RunDirectory, **monitoring: str) -> None:
    plan = run.specification()
    section = plan.config.monitoring.model_copy(update=monitoring)
    changed = plan.model_copy(update={"config": plan.config.model_copy(update={"monitoring": section})})
    write_atomically(run.path / "run.json", changed.model_dump_json().encode())


@pytest.mark.parametrize("policy", ["stop", "checkpoint"])
def test_what_stood_since_the_look_before_is_requested_once(
    looked: Callable[..., AlertStop | None], run: RunDirectory, policy: str
) -> None:
    set_policy(run, on_critical=policy)
    assert looked() is None, "it may be over at the next look"
    assert looked(steps=5) is None, "so few steps say little"
    request = looked()
    assert request is not None
    assert (request.does, request.id, request.severity) == (policy, CAUSE, "critical")
    assert request.document == f"diagnostics/{CAUSE}.md"
    assert request.reason == f"alert: {CAUSE}"
    before = run.alert_stop(1).stat()
    assert looked(anew=True) == looked() == request
    assert run.alert_stop(1).stat().st_ino == before.st_ino, "none is made again"
    assert not request_alert_stop(run, 1, request.model_copy(update={"id": "another"}))
    assert requested_alert_stop(run, 1) == request


def test_a_follower_takes_over_where_the_one_that_found_it_was_killed(looked: Callable[..., AlertStop | None]) -> None:
    assert looked() is None
    request = looked(anew=True)
    assert request is not None
    assert request.id == CAUSE


@pytest.mark.parametrize(
    ("policy", "kind"), [({"on_critical": "tell"}, None), ({}, "cure"), ({}, "replay")], ids=["tell", "cure", "replay"]
)
def test_a_run_that_says_tell_and_one_that_repeats_on_purpose_go_on(
    looked: Callable[..., AlertStop | None], run: RunDirectory, workspace: Workspace,
    policy: dict[str, str], kind: str | None,
) -> None:  # fmt: skip
    set_policy(run, **policy)
    if kind is not None:
        with workspace.session() as session:
            get_run(session, RUN).kind = kind
    assert [looked() for _ in range(3)] == [None] * 3


def test_what_the_worker_found_as_grave_itself_is_left_to_it(
    looked: Callable[..., AlertStop | None], run: RunDirectory
) -> None:
    run.append_event("alert", id=CAUSE, severity="warning", step=3)
    run.append_event("alert", id="loss_without_gradient", severity="critical", step=3)
    looked()
    request = looked()
    assert request is not None, "of the one it found less grave than the curves show it is not the worker's to know"
    assert request.id == CAUSE
    run.alert_stop(1).unlink()
    run.append_event("alert", id=CAUSE, severity="critical", step=4)
    assert [looked() for _ in range(2)] == [None, None]


def test_a_resumed_run_is_not_stopped_for_the_same_alert(
    looked: Callable[..., AlertStop | None], run: RunDirectory
) -> None:
    looked()
    request = looked()
    assert request is not None
    run.append_event("alert", found_by="server", **request.model_dump(exclude={"does", "remedy"}))
    assert [looked(attempt=2) for _ in range(3)] == [None] * 3
    assert looked(anew=True, attempt=2) is None


def test_what_the_owner_accepts_stops_nothing(looked: Callable[..., AlertStop | None], workspace: Workspace) -> None:
    grant = {"kind": "alert", "name": CAUSE}
    with workspace.session() as session:
        ledger.append(session, "digits", "owner_request", {"wish": grant, "reason": "known"})
    with workspace.session() as session:
        (request,) = requests_of(session, workspace, "digits")
        record(session, workspace, request, granted=True, by={"way": "terminal"})
    assert [looked() for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("policy", ["checkpoint", "tell"])
def test_a_warning_stops_only_where_so_configured(
    looked: Callable[..., AlertStop | None], run: RunDirectory, policy: str
) -> None:
    set_policy(run, on_warning=policy)
    write(run, [("train/loss", step, 0.95, 0.0) for step in range(1, 3 * STEPS)])  # nothing was learned, nor lost
    looked()
    request = looked()
    if policy == "tell":
        assert request is None
    else:
        assert request is not None
        assert (request.severity, request.does) == ("warning", "checkpoint")
