"""What is asked of the owner, what a grant covers, and when it ends (GATE-4)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.warm import trainwright_command

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.limits import effective_limits
from trainwright.tools.owner import (
    Grant,
    Grantor,
    Request,
    accepted_alerts,
    accepted_values,
    ask,
    decide,
    limit_grants,
    record_settings_grants,
    requests_of,
)
from trainwright.tools.projects import configure, create_project, project_status
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import (
    ApprovalNeededError,
    ConfigurationError,
    ConflictError,
    GateRefusedError,
    NotFoundError,
)
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("GATE-4")
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "distributed": {"launcher": "outer"}}
OWNER = Grantor(way="terminal", user="ada", terminal="/dev/pts/1", processes=["bash (1)"])


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    edit(opened, "outer_launcher: false", "outer_launcher: true")
    for name in ("mine", "theirs"):
        create_project(opened, name, intent="test", goal=GOAL, config=CONFIG)
    yield opened
    opened.close()


def asked(workspace: Workspace, project: str = "mine", **limits: float) -> Request:
    """Ask for one limit through the agent's call."""
    answer = configure(workspace, project, ask_owner={"limits": limits}, reason="more")
    assert answer.requests is not None
    with workspace.session() as session:
        return next(one for one in requests_of(session, workspace) if one.id == answer.requests[-1].request)


def trials(workspace: Workspace, project: str = "mine") -> int:
    with workspace.session() as session:
        return effective_limits(session, workspace, get_project(session, project)).trials


def edit(workspace: Workspace, old: str, new: str) -> None:
    """Edit settings.yaml as the owner would, and call the server again."""
    path = workspace.path / "settings.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    record_settings_grants(workspace.refreshed())


def decisions(workspace: Workspace) -> list[dict[str, Any]]:
    with workspace.session() as session:
        return [body for _, body in ledger.entries(session, None, "owner_decision")]


def test_asking_changes_nothing_and_asking_again_is_the_same_request(workspace: Workspace) -> None:
    first = asked(workspace, trials=400)
    assert first.state == "pending"
    assert asked(workspace, trials=400).id == first.id
    assert asked(workspace, trials=401).id != first.id
    assert trials(workspace) == 200
    answer = configure(workspace, "mine", ask_owner={"limits": {"trials": 400}})
    assert answer.requests is not None
    assert "trainwright approve" in answer.requests[0].how
    assert first.id in answer.requests[0].how
    assert answer.version == 1, "asking makes no new configuration"


def test_a_grant_holds_for_its_project_and_its_exact_value(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    assert decide(workspace, request.id, granted=True, by=OWNER).state == "granted"
    assert trials(workspace) == 400
    assert trials(workspace, "theirs") == 200
    assert asked(workspace, trials=401).state == "pending"
    assert asked(workspace, "theirs", trials=400).state == "pending"
    status = project_status(workspace, "mine")
    assert not isinstance(status, list)
    assert status.limits["trials"] == "0 of 400, 400 left"
    assert status.owner[0] == f"{request.id}: limit trials = 400: granted by ada at a terminal"


def test_answering_twice_changes_nothing(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    decide(workspace, request.id, granted=True, by=OWNER)
    before = decisions(workspace)
    assert decide(workspace, request.id, granted=True, by=OWNER).state == "granted"
    assert decide(workspace, request.id, granted=False, by=OWNER).state == "granted"
    assert decisions(workspace) == before
    assert len(before) == 1


def test_a_denied_wish_stays_denied_however_often_it_is_asked(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    decide(workspace, request.id, granted=False, by=OWNER)
    assert asked(workspace, trials=400).state == "denied"
    assert trials(workspace) == 200


def test_two_terminals_answering_at_once_record_one_answer(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    base = [*trainwright_command(os.environ), "approve", "-w", str(workspace.path)]
    commands = [[*base, "--yes", request.id], [*base, "--deny", request.id]]
    answering = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    said = [process.communicate(timeout=60)[0].split(": ")[2].split()[0] for process in answering]
    assert said[0] == said[1]
    assert len(decisions(workspace)) == 1


def test_a_grant_in_the_settings_file_is_recorded_when_it_is_seen(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    edit(workspace, "grants: []", f"grants: [{request.id}]")
    (body,) = decisions(workspace)
    assert body["by"] == {"way": "settings", "above": 200}
    assert trials(workspace) == 400
    record_settings_grants(workspace.refreshed())
    assert len(decisions(workspace)) == 1
    edit(workspace, f"grants: [{request.id}]", "grants: []")
    assert trials(workspace) == 200, "a grant that is taken out of the file holds no more"


def test_lowering_a_limit_in_the_settings_takes_its_grants_back(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    decide(workspace, request.id, granted=True, by=OWNER)
    edit(workspace, "trials: 200", "trials: 50")
    assert trials(workspace) == 50
    again = asked(workspace, trials=400)
    assert (again.id != request.id, again.state) == (True, "pending")


def test_an_owner_who_answers_in_the_file_alone_is_not_answered_for_at_a_terminal(workspace: Workspace) -> None:
    before, after = asked(workspace, trials=300), asked(workspace, trials=400)
    decide(workspace, before.id, granted=True, by=OWNER)
    edit(workspace, "approvals: [terminal]", "approvals: []")
    with pytest.raises(ConflictError, match="do not accept answers by terminal"):
        decide(workspace, after.id, granted=True, by=OWNER)
    assert trials(workspace) == 200
    edit(workspace, "grants: []", f"grants: [{after.id}]")
    assert trials(workspace) == 400


def test_a_decision_that_does_not_fit_its_request_grants_nothing(workspace: Workspace) -> None:
    request = asked(workspace, trials=400)
    stranger = Grant(kind="limit", name="trials", value=10**6).model_dump()
    by = OWNER.model_dump() | {"above": 200}
    with workspace.session() as session:
        forged = {"request": request.id, "granted": True, "by": by}
        ledger.append(session, "theirs", "owner_decision", forged | {"wish": request.grant.model_dump()})
        ledger.append(session, "mine", "owner_decision", forged | {"wish": stranger})
        ledger.append(session, "mine", "owner_decision", forged | {"request": "r1-abcdef", "wish": stranger})
    assert trials(workspace) == 200
    assert trials(workspace, "theirs") == 200
    what = "an answer of the owner answers no request"
    asked_for = f"{what}: {request.id} requests limit trials = 400 in project mine, and it answers for limit trials"
    problems = verify_workspace(workspace.path).problems
    assert [problem.partition(": ")[2] for problem in problems] == [
        f"{asked_for} = 400 in project theirs",
        f"{asked_for} = 1e+06 in project mine",
        f"{what} (r1-abcdef)",
    ]


def test_verify_names_a_second_answer_and_no_honest_one(workspace: Workspace) -> None:
    denied, granted = asked(workspace, trials=300), asked(workspace, trials=400)
    for request in (denied, granted):
        decide(workspace, request.id, granted=request == granted, by=OWNER)
    assert verify_workspace(workspace.path).problems == []
    (body, _) = decisions(workspace)
    with workspace.session() as session:
        sequence = ledger.append(session, "mine", "owner_decision", body | {"granted": True}).sequence
    assert verify_workspace(workspace.path).problems == [
        f"ledger entry {sequence}: an answer of the owner is the second to {denied.id}"
    ]


def test_requests_are_few_and_make_sense(workspace: Workspace) -> None:
    for asking, message in (({"limits": {"trails": 3}}, "unknown limit"), ({"exemption": "a\nb"}, "not the name")):
        with pytest.raises(ConfigurationError, match=message):
            configure(workspace, "mine", ask_owner=asking)
    with workspace.session() as session:
        for number in range(20):
            ask(session, workspace, "mine", *limit_grants({"trials": 300 + number}))
    with pytest.raises(ConflictError, match="20 requests"):
        asked(workspace, trials=1000)
    with pytest.raises(NotFoundError, match="no request"):
        decide(workspace, "r1-000000", granted=True, by=OWNER)


def test_a_project_above_the_limits_is_made_by_the_same_call_after_the_grant(workspace: Workspace) -> None:
    def call(trials: int) -> Any:
        return create_project(workspace, "large", intent="t", goal=GOAL, config=CONFIG, limits={"trials": trials})

    with pytest.raises(ApprovalNeededError, match=r"limit trials = 900 \(r") as caught:
        call(900)
    (request,) = caught.value.details["requests"]
    assert verify_workspace(workspace.path).problems == [], "a request for a project that does not exist yet"
    with pytest.raises(ApprovalNeededError, match="pending"):
        call(900)
    decide(workspace, request["request"], granted=True, by=OWNER)
    with pytest.raises(ApprovalNeededError, match="trials = 901"):
        call(901)
    assert call(900).limits["trials"] == "0 of 900, 900 left"


def test_code_outside_the_owners_folders_waits_for_the_grant_and_ends_with_it(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")

    def call(name: str = "far") -> Any:
        return create_project(workspace, name, intent="t", goal=GOAL, config=CONFIG | {"code_root": str(elsewhere)})

    with pytest.raises(ApprovalNeededError, match="code_root") as caught:
        call()
    decide(workspace, caught.value.details["requests"][0]["request"], granted=True, by=OWNER)
    assert call().project == "far"
    with pytest.raises(ApprovalNeededError, match="code_root"):
        call("other")
    start_run(workspace, "far", RunKind.SMOKE)
    edit(workspace, "approvals: [terminal]", "approvals: []")
    with pytest.raises(ConfigurationError, match="not a folder inside the allowed"):
        start_run(workspace, "far", RunKind.SMOKE)
    with pytest.raises(GateRefusedError):
        start_run(workspace, "mine", RunKind.BASELINE)


@pytest.mark.requirement("PHASE-10")
def test_the_owner_may_accept_a_result_an_alert_or_another_target(workspace: Workspace) -> None:
    grants = {"accept": 0.81, "goal": {"target": 0.8}, "alert": "exploding_gradients"}
    answer = configure(workspace, "mine", ask_owner=grants, reason="good enough")
    assert answer.requests is not None
    named = [request.requested for request in answer.requests]
    assert named == ["acceptance accuracy = 0.81", "goal accuracy = 0.8", "alert exploding_gradients"]
    status = project_status(workspace, "mine")
    assert not isinstance(status, list)
    assert status.goal == "validation accuracy >= 0.9", "asking changes nothing"
    for request in answer.requests:
        decide(workspace, request.request, granted=True, by=OWNER)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "mine")
        assert accepted_alerts(evidence.grants) == {"exploding_gradients"}
        assert accepted_values(evidence.grants) == [0.81]
        assert evidence.goal == GOAL | {"target": 0.8}
        assert evidence.goal_text == "validation accuracy >= 0.8 (revised by the owner from 0.9)"
        assert evidence.reaches_goal(0.85)
        assert Evidence(session, workspace, "theirs").goal == GOAL
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("PHASE-10")
@pytest.mark.parametrize(
    ("grant", "remedy"),
    [
        ({"accept": float("nan")}, "'accept': 0.9"),
        ({"goal": {"target": True}}, "'target'"),
        ({"alert": "exploding_gradient"}, "exploding_gradients"),
    ],
)
def test_what_cannot_be_accepted_is_refused_with_what_can(workspace: Workspace, grant: Any, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        configure(workspace, "mine", ask_owner=grant)
    assert remedy in refused.value.remedy
