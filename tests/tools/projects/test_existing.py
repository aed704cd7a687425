"""What exists is not done again: a start finds it, and a run that ended while nobody looked is read as what it is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.variants import variants
from tests.worlds.flowers import NAME, World
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.answers import Answer
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.run import RunKind

At = Callable[[str], Workspace]
ORDERS: dict[str, tuple[str, Callable[[Workspace], Answer]]] = {
    "smoke": ("planned", lambda workspace: start_run(workspace, NAME, RunKind.SMOKE)),
    "baseline": ("trained", lambda workspace: start_run(workspace, NAME, RunKind.BASELINE)),
    "final": ("exported", lambda workspace: start_run(workspace, NAME, RunKind.FINAL)),
    "replay": ("exported", lambda workspace: replay_run(workspace, NAME)),
    "export": ("exported", lambda workspace: start_run(workspace, NAME, RunKind.EXPORT)),
}


def count(workspace: Workspace) -> int:
    with workspace.session() as session:
        return len(runs_of(session, NAME))


@pytest.mark.requirement("GATE-7")
@pytest.mark.parametrize("kind", ORDERS)
def test_a_start_of_what_is_complete_returns_it_and_says_so(at: At, kind: str) -> None:
    stage, order = ORDERS[kind]
    workspace = at(stage)
    before = count(workspace)
    view = order(workspace)
    stands = "baseline" if kind == "final" else kind  # the baseline's configuration was accepted: it is the final run
    assert (view.kind, view.state.value) == (stands, "completed")  # type: ignore[attr-defined]
    assert "nothing was started" in (view.note or "")  # type: ignore[attr-defined]
    assert view.next is not None
    assert count(workspace) == before


@pytest.mark.requirement("GATE-7")
def test_what_changed_is_measured_again(at: At) -> None:
    workspace = at("smoked")
    data = workspace.path.parent / "code" / "iris.csv"
    data.write_text("\n".join(data.read_text().splitlines()[:-1]) + "\n")
    assert start_run(workspace, NAME, RunKind.SMOKE, max_steps=3).note is None


@pytest.mark.requirement("GATE-7")
def test_an_idempotency_key_of_its_own_repeats_on_purpose(at: At) -> None:
    workspace = at("planned")
    before = count(workspace)
    with scripted():
        assert start_run(workspace, NAME, RunKind.SMOKE, idempotency_key="once more").note is None
    assert count(workspace) == before + 1


LOOKS: dict[str, Callable[[Workspace, str], Answer]] = {
    "project_status": lambda workspace, run: projects.project_status(workspace, NAME),  # type: ignore[return-value]
    "the list of projects": lambda workspace, run: projects.project_status(workspace)[0],  # type: ignore[index]
    "configure": lambda workspace, run: projects.configure(workspace, NAME),
    "diagnose_run": lambda workspace, run: projects.diagnose(workspace, NAME),
    "compare_runs": lambda workspace, run: projects.compare_runs(workspace, [run, run]),
    "plot_metrics": lambda workspace, run: projects.plot_metrics(workspace, [run]),
}


@pytest.fixture(scope="module")
def unseen(flowers: World) -> str:
    """A stage whose baseline completed while no server looked; the run's id."""
    flowers.set_back("planned")
    workspace = Workspace.open(flowers.workspace)
    run = start_run(workspace, NAME, RunKind.BASELINE).run_id
    directory = workspace.run_directory(NAME, run)
    while directory.status().state.value != "completed" or directory.is_locked():
        time.sleep(0.05)
    workspace.close()
    flowers.keep("unseen")
    return run


@pytest.mark.requirement("GATE-7")
@pytest.mark.parametrize("how", variants(LOOKS, quick=["project_status", "diagnose_run"]))
def test_a_run_that_completed_while_nobody_looked_is_not_trained_anew(at: At, unseen: str, how: str) -> None:
    workspace = at("unseen")
    call = LOOKS[how](workspace, unseen).next
    assert call is not None
    assert (call.tool, call.arguments.get("phase")) == ("pass_gate", "baseline") or call.tool == "diagnose_run"


@pytest.mark.requirement("GATE-7")
def test_a_run_that_cannot_be_followed_just_now_is_looked_at_and_not_repeated(at: At, unseen: str) -> None:
    workspace = at("unseen")
    from trainwright.tools.gates.evidence import Evidence

    with workspace.session() as session:
        run = Evidence(session, workspace, NAME).run(unseen)
        assert run is not None
        assert run.sealed is None
        assert run.next_call().tool == "run_status"
