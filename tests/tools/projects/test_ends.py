"""A project whose search finds nothing better still reaches an end, by the agent's exit or the owner's (PHASE-10)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.records import Script, climbing
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.decide import final_values
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.ledger import entries
from trainwright.tools.owner import Grantor, decide
from trainwright.tools.projects import ProjectStatus
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, GateRefusedError
from trainwright.trainer.run import RunKind, RunSpecification

pytestmark = pytest.mark.slow

NAME = "noise"
CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris"},
    "optimizer": {"learning_rate": 0.02},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 1.0}
OWNER = Grantor(way="terminal", user="ada", terminal="/dev/pts/1")
Stage = Callable[[str], Workspace]


def in_vain(low: float) -> dict[str, Any]:
    """A search that can find nothing but noise: weight decay within a thousandth."""
    space = {"optimizer.weight_decay": {"type": "float", "low": low, "high": 1.001 * low}}
    return {"method": "random", "trials": 1, "space": space, "pruning": {"name": "none"}}


def search(workspace: Workspace, low: float) -> Any:
    study_id = start_study(workspace, NAME, search=in_vain(low)).study_id
    while (view := study_status(workspace, study_id, 50)).state in {"running", "confirming"}:
        pass
    assert view.state == "completed", view
    assert view.confirmation
    assert not view.confirmation["validated"]
    return view


def train(workspace: Workspace, kind: RunKind) -> Any:
    run_id = start_run(workspace, NAME, kind).run_id
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    assert view.state == "completed", view.failure
    return view


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The workspace in optimization, before and after a first search in vain; nobody trained its runs."""
    base = tmp_path_factory.mktemp("ends")
    with scripted():
        return _stages(base)


def _stages(base: Path) -> dict[str, Path]:
    workspace = Workspace.open(base / "world")
    projects.create_project(workspace, NAME, intent="", goal=GOAL, config=CONFIG)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        train(workspace, kind)
        projects.pass_gate(workspace, NAME, phase)
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    kept = {}
    for stage in ("diagnosed", "searched"):
        if stage == "searched":
            search(workspace, 0.01)
        workspace.close()
        kept[stage] = base / stage
        shutil.copytree(base / "world", kept[stage])
        workspace = Workspace.open(base / "world")
    workspace.close()
    return kept


@pytest.fixture
def at(stages: dict[str, Path], tmp_path: Path) -> Iterator[Stage]:
    opened: list[Workspace] = []

    def open_copy(stage: str) -> Workspace:
        shutil.copytree(stages[stage], tmp_path / "copy")
        roots = f"code_roots: ['{stages[stage].parent}']\n"
        (tmp_path / "copy" / "settings.yaml").write_text(roots)
        opened.append(Workspace.open(tmp_path / "copy"))
        return opened[-1]

    with scripted():
        yield open_copy
    for workspace in opened:
        workspace.close()


def status_of(workspace: Workspace) -> ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, ProjectStatus)
    return found


def next_of(workspace: Workspace) -> NextCall:
    call = status_of(workspace).next
    assert call is not None
    return call


def decision(workspace: Workspace, phase: str) -> dict[str, Any]:
    with workspace.session() as session:
        return next(body for _, body in reversed(entries(session, NAME, "gate")) if body["phase"] == phase)


CONCLUDE = {"project": NAME, "phase": "optimization", "conclude": True}


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-2")
def test_concluding_needs_a_search_that_ended_and_the_refusal_names_one(at: Stage) -> None:
    workspace = at("diagnosed")
    with pytest.raises(GateRefusedError, match="conclusion_grounded: measured no study has ended") as refused:
        projects.pass_gate(workspace, NAME, "optimization", conclude=True)
    assert "start_tuning" in refused.value.remedy
    assert "repetitions of" in next_of(workspace).why, "the first search says what it costs"
    with pytest.raises(ConfigurationError, match="the finalization gate has no such exit"):
        projects.pass_gate(workspace, NAME, "finalization", conclude=True)
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-5", "PHASE-10", "GATE-3")
def test_after_a_search_in_vain_the_agent_may_conclude_and_everything_says_so(at: Stage) -> None:
    workspace = at("searched")
    call = next_of(workspace)
    assert (call.tool, call.arguments["search"]["trials"]) == ("start_tuning", 2)
    for told in ("within the noise", "repetitions of", "conclude=True", "'accept': 0."):
        assert told in call.why, call.why
    answer = projects.pass_gate(workspace, NAME, "optimization", conclude=True)
    assert (answer.outcome, answer.now_in) == ("concluded", "finalization")
    assert answer.goal.startswith("Goal not reached: 0.")
    assert "of 1 (validation accuracy" in answer.goal
    body = decision(workspace, "optimization")
    assert body["ending"]["goal"] == GOAL
    assert "1 study ended" in body["ending"]["concluded"]
    assert body["final_values"]["optimizer"]["weight_decay"] == 0.01, "the baseline's: nothing better is proven"
    assert answer.goal in (workspace.project_folder(NAME) / "tuning_results.md").read_text()
    assert verify_workspace(workspace.path).problems == []
    assert status_of(workspace).gates["optimization"] == "concluded"


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-5", "PHASE-10", "GATE-3")
def test_a_best_whose_seeds_all_beat_the_baselines_is_taken_though_the_interval_does_not_settle_it(at: Stage) -> None:
    workspace, seen = at("diagnosed"), dict[int, int]()

    def apart(plan: RunSpecification, epoch: int) -> dict[str, float]:
        found = climbing(plan, epoch)  # seeds change it by 0.006 at most
        if plan.config.optimizer.model_dump()["weight_decay"] < 0.015:
            return found
        nth = seen.setdefault(plan.config.seed, len(seen))
        return found | {"accuracy": found["accuracy"] + (0.02, 0.01, 0.02, 0.06)[nth]}

    with scripted(Script(curve=apart)):
        search(workspace, 0.02)
    told = "all 3 seeds of the best beat all 3 of the baseline; the difference +0.03"
    assert f"conclude=True) (It takes the study's best: {told}" in next_of(workspace).why
    answer = projects.pass_gate(workspace, NAME, "optimization", conclude=True)
    assert (answer.outcome, answer.now_in) == ("concluded", "finalization")
    assert answer.goal.startswith("Goal not reached: 0.78"), "the best's value, by 0.02 above the baseline's"
    body = decision(workspace, "optimization")
    assert told in body["ending"]["concluded"]
    assert body["final_values"]["optimizer"]["weight_decay"] >= 0.02
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        assert final_values(evidence) == evidence.final_values, "later reports tell what was decided"
    assert next_of(workspace).arguments["kind"] == "final", "the baseline is not what is finalized"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-4", "GATE-7")
def test_no_more_trials_are_asked_for_than_the_limits_leave(at: Stage) -> None:
    workspace = at("searched")
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text() + "limits: {trials: 1}\n")
    workspace.refreshed()
    call = next_of(workspace)
    assert call.arguments == CONCLUDE
    assert "0 trials are left of the limits" in call.why
    assert projects.pass_gate(workspace, **call.arguments).outcome == "concluded"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-4")
def test_used_up_time_is_a_ground_to_conclude_and_next_says_how_much_is_left(at: Stage) -> None:
    workspace = at("diagnosed")
    with workspace.session() as session:
        used = [body["used"]["wall_clock_seconds"] for _, body in entries(session, NAME, "run_sealed")]
    settings = workspace.path / "settings.yaml"
    roots = settings.read_text()
    settings.write_text(f"{roots}limits: {{project_wall_clock_seconds: {sum(used) + used[-1] / 2}}}\n")
    workspace.refreshed()
    call = next_of(workspace)
    assert call.arguments == CONCLUDE
    assert "s are left of project_wall_clock_seconds, and the baseline took" in call.why
    settings.write_text(f"{roots}limits: {{disk_bytes: 1}}\n")
    workspace.refreshed()
    assert f"prune_checkpoints(project={NAME!r}) may give room" in next_of(workspace).why, "the disk comes back"
    settings.write_text(f"{roots}limits: {{project_wall_clock_seconds: {sum(used) + used[-1] / 2}}}\n")
    workspace.refreshed()
    assert projects.pass_gate(workspace, **call.arguments).outcome == "concluded"
    settings.write_text(roots)
    workspace.refreshed()
    assert verify_workspace(workspace.path).problems == [], "it was decided under the limits as they stood"


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-7")
def test_after_two_searches_within_the_noise_next_offers_the_end_with_figures(at: Stage) -> None:
    workspace = at("searched")
    search(workspace, 0.011)
    call = next_of(workspace)
    assert call.arguments == CONCLUDE
    for told in ("within the noise", "after 2 searches", "a further one would take", "The owner may accept"):
        assert told in call.why, call.why
    assert projects.pass_gate(workspace, **call.arguments).outcome == "concluded"


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-3", "GATE-4")
def test_the_owner_accepts_a_result_below_the_goal_or_revises_it(at: Stage) -> None:
    workspace = at("diagnosed")
    reached = status_of(workspace).runs[0].best
    assert reached is not None
    with pytest.raises(ConfigurationError, match="accuracy lies in 0 to 1"):
        projects.configure(workspace, NAME, ask_owner={"goal": {"target": 1.5}})
    for grant, outcome, told in (
        ({"accept": reached + 0.01}, None, ""),
        ({"accept": reached}, "accepted", "; accepted by ada at a terminal"),
        ({"goal": {"target": reached}}, "skipped", "; revised from 1 by ada at a terminal"),
    ):
        answer = projects.configure(workspace, NAME, ask_owner=grant)
        assert answer.requests
        assert decide(workspace, answer.requests[0].request, granted=True, by=OWNER).state == "granted"
        if outcome is None:
            with pytest.raises(GateRefusedError, match="no study on this configuration"):
                projects.pass_gate(workspace, NAME, "optimization")
            continue
        if outcome == "accepted":
            assert next_of(workspace).arguments == {"project": NAME, "phase": "optimization"}
            passed = projects.pass_gate(workspace, NAME, "optimization")
            assert (passed.outcome, told in passed.goal) == (outcome, True), passed.goal
            assert decision(workspace, "optimization")["ending"]["accepted_by"]["user"] == "ada"
        else:
            assert status_of(workspace).goal.endswith("(revised by the owner from 1.0)")
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-10")
def test_a_goal_met_or_a_conclusion_that_was_written_in_is_found(at: Stage) -> None:
    from tests.tools.projects.conftest import rewrite_decision

    workspace = at("searched")
    projects.pass_gate(workspace, NAME, "optimization", conclude=True)
    for edit in (lambda body: body["ending"].update(met=True), lambda body: body.pop("ending")):
        rewrite_decision(workspace, "optimization", edit)
        told = "; ".join(verify_workspace(workspace.path).problems)
        assert "how far the project came does not follow from the evidence" in told
    rewrite_decision(workspace, "optimization", lambda body: body["circumstances"].update(concludes=False))
    told = "; ".join(verify_workspace(workspace.path).problems)
    assert "optimization.improvement_validated" in told, json.dumps(told)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("PIPE-3", "PHASE-10", "GATE-2")
def test_a_project_below_its_own_bound_needs_the_owner_who_is_named_in_the_card(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "world")
    bounds = {"evaluation_gate": {"minimum": {"accuracy": 0.99, "f1": 0.5}, "maximum": {"test/loss": 100.0}}}
    goal = GOAL | {"target": 0.3}
    projects.create_project(workspace, NAME, intent="", goal=goal, config=CONFIG | bounds)
    train(workspace, RunKind.SMOKE)
    with pytest.raises(GateRefusedError, match="bounds_measured: measured not computed: f1"):
        projects.pass_gate(workspace, NAME, "planning")
    call = next_of(workspace)
    assert (call.tool, call.arguments["changes"]) == ("configure", {"evaluation_gate.minimum.f1": None})
    projects.configure(workspace, NAME, changes=call.arguments["changes"])
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        train(workspace, kind)
        projects.pass_gate(workspace, NAME, phase)
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    projects.pass_gate(workspace, NAME, "optimization")
    for start in (replay_run(workspace, NAME), None):
        view = start or start_run(workspace, NAME, RunKind.EXPORT)
        while not wait_for_run(workspace, view.run_id).is_ended:
            pass
    with pytest.raises(GateRefusedError, match=r"bounds_kept: measured accuracy 0\.\d+, test/loss [\d.]+; required"):
        projects.pass_gate(workspace, NAME, "finalization")
    call = next_of(workspace)
    assert "accept" in call.arguments["ask_owner"], call
    answer = projects.configure(workspace, **call.arguments)
    assert answer.requests
    decide(workspace, answer.requests[0].request, granted=True, by=OWNER)
    finished = projects.pass_gate(workspace, NAME, "finalization")
    assert finished.now_in == "finished"
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text()
    assert "accepted by the owner below accuracy" in card
    assert "granted by ada at a terminal" in card
    assert verify_workspace(workspace.path).problems == []
    workspace.close()


@pytest.mark.timeout(600)
@pytest.mark.requirement("PHASE-10", "GATE-7")
def test_no_search_is_proposed_over_keys_that_the_run_makes_no_use_of(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "world")
    goal = {"metric": "loss", "direction": "minimize", "target": 0.001}
    projects.create_project(workspace, NAME, intent="", goal=goal, config=CONFIG)
    with scripted(Script(parts={"resolved": {"keys_without_effect": ["optimizer"]}})):
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            train(workspace, kind)
            projects.pass_gate(workspace, NAME, phase)
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    call = next_of(workspace)
    assert call.arguments == CONCLUDE
    assert "the run makes no use of optimizer.learning_rate" in call.why
    answer = projects.pass_gate(workspace, **call.arguments)
    assert answer.outcome == "concluded"
    assert "lower is better" in answer.goal
    assert verify_workspace(workspace.path).problems == []
    workspace.close()
