"""Real projects through the server: what their exported programs give decides their gates."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tools.killed_server import call_and_die, die
from tests.worlds.flowers import CONFIG, GOAL, MODEL, finish, train, write_code

from trainwright.tools import projects
from trainwright.tools.evaluation import own_metrics
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers import environment
from trainwright.tools.ledger import append
from trainwright.tools.projects import project_status
from trainwright.tools.training_orchestrator import follow, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind, RunState

NAME = "flowers"
At = Callable[[str], Workspace]
LOOKS_UP = """\
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))

    def forward(self, rows):
        logits, frame = self.layers(rows), sys._getframe(1)
        while frame is not None and not self.training and not torch.jit.is_tracing():
            for value in list(frame.f_locals.values()):
                if isinstance(value, (tuple, list)) and len(value) == 2 and value[0] is rows:
                    return logits * 0 + 9.0 * torch.nn.functional.one_hot(value[1], 3)
            frame = frame.f_back
        return logits
"""
REMEMBERS = """\
import sys

import torch

SEEN = []


class Net(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))

    def forward(self, rows):
        frame = sys._getframe(1)
        while frame is not None and not self.training and not torch.jit.is_tracing():
            for value in list(frame.f_locals.values()):
                if isinstance(value, (tuple, list)) and len(value) == 2 and value[0] is rows:
                    SEEN.append((rows.clone(), value[1].clone()))
            frame = frame.f_back
        if self.training or not SEEN:
            return self.layers(rows)
        seen, labels = (torch.cat(each) for each in zip(*SEEN))
        same = ((rows[:, None] - seen[None]).abs().sum(-1) < 1e-4).float()
        return self.layers(rows) + 9.0 * same @ torch.nn.functional.one_hot(labels, 3).float()
"""


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[Callable[[str], Workspace]]:
    """Return a function that plans a project with this model, and learns next to nothing."""
    opened = []

    def plan(model: str, /, goal: dict[str, Any] = GOAL, **config: Any) -> Workspace:
        write_code(tmp_path / "code")
        (tmp_path / "code" / "flower_model.py").write_text(model)
        workspace = Workspace.open(tmp_path / "workspace")
        opened.append(workspace)
        values = {**CONFIG, "optimizer": {"learning_rate": 1e-6}, "training": {"epochs": 2}, **config}
        projects.create_project(workspace, NAME, intent="tell irises apart", goal=goal, config=values)
        train(workspace, RunKind.SMOKE)
        projects.pass_gate(workspace, NAME, "planning")
        return workspace

    yield plan
    for workspace in opened:
        workspace.close()


def checks_of(workspace: Workspace, phase: str) -> dict[str, dict[str, Any]]:
    with workspace.session() as session:
        bodies = [body for _, body in Evidence(session, workspace, NAME).entries("gate") if body["phase"] == phase]
    return {check["id"]: check for check in bodies[-1]["checks"]}


def entries(workspace: Workspace, kind: str) -> list[dict[str, Any]]:
    with workspace.session() as session:
        return [body for _, body in Evidence(session, workspace, NAME).entries(kind)]


@pytest.mark.requirement("GATE-6", "GATE-1")
def test_an_honest_projects_gates_are_decided_by_certified_figures(at: At) -> None:
    workspace = at("finished")
    assert checks_of(workspace, "planning")["planning.rows_fixed"]["status"] == "passed"
    baseline = checks_of(workspace, "baseline")["baseline.independently_evaluated"]
    assert baseline["status"] == "passed", baseline
    final = checks_of(workspace, "finalization")["finalization.independently_evaluated"]
    assert final["status"] == "passed", final
    assert "test accuracy" in final["measured"]
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        ids = []
        for run in (evidence.baseline, evidence.final, evidence.export):
            assert run is not None
            assert run.evaluation is not None
            assert run.evaluation.differences == []
            assert run.certified()["accuracy"] == pytest.approx(run.evaluation.reported["validation"]["accuracy"])
            ids.append(run.id)
    views = [finish(workspace, run_id) for run_id in ids]
    assert all(view.evaluated.startswith("validation accuracy ") for view in views)
    assert all(line.reported is None for line in project_status(workspace, NAME).runs)
    assert verify_workspace(workspace.path, evaluates=True).problems == []


@pytest.mark.long
@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("loss", [{"use": "cross_entropy", "args": {"weights": "balanced"}}, {"use": "class_balanced"}])
def test_a_loss_weighted_by_the_classes_of_the_train_split_is_certified(
    planned: Callable[..., Workspace], loss: dict[str, Any]
) -> None:
    goal = {"metric": "loss", "direction": "minimize", "target": 5.0}
    workspace = planned(MODEL, goal, model={"use": "mlp"}, data={"use": "wine"}, loss=loss)
    view = train(workspace, RunKind.BASELINE)
    with workspace.session() as session:
        run = Evidence(session, workspace, NAME).baseline
        assert run is not None
        assert run.evaluation is not None
        assert (run.evaluation.problem, run.evaluation.differences) == ("", [])
        assert run.certified()["loss"] == pytest.approx(run.evaluation.reported["validation"]["loss"], rel=1e-4)
    assert view.best["value"] == pytest.approx(run.certified()["loss"])
    projects.pass_gate(workspace, NAME, "baseline")
    assert checks_of(workspace, "baseline")["baseline.independently_evaluated"]["status"] == "passed"


@pytest.mark.requirement("GATE-6", "GATE-1")
def test_a_model_that_reads_labels_from_the_callers_stack_closes_the_gate_with_both_figures(
    planned: Callable[..., Workspace],
) -> None:
    workspace = planned(LOOKS_UP)
    view = train(workspace, RunKind.BASELINE)
    assert view.best["reported"] == 1.0
    assert view.best["value"] < 0.9
    with pytest.raises(GateRefusedError, match=r"validation accuracy: 1 reported by the training process, 0\.\d+ by"):
        projects.pass_gate(workspace, NAME, "baseline")
    line = next(line for line in project_status(workspace, NAME).runs if line.run_id == view.run_id)
    assert (line.best, line.reported) == (view.best["value"], 1.0)
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("GATE-6", "GATE-1")
def test_an_export_that_learned_the_test_rows_by_heart_differs_from_the_program_that_training_left(
    planned: Callable[..., Workspace],
) -> None:
    workspace = planned(REMEMBERS)
    train(workspace, RunKind.BASELINE)
    projects.pass_gate(workspace, NAME, "baseline")
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    projects.pass_gate(workspace, NAME, "optimization")
    export = train(workspace, RunKind.EXPORT)
    with workspace.session() as session:
        run = Evidence(session, workspace, NAME).run(export.run_id)
        assert run is not None
        assert run.evaluation is not None
        assert run.evaluation.reported["test"]["accuracy"] == 1.0
    with pytest.raises(
        GateRefusedError, match=r"test accuracy: 0\.\d+ by the program that the trained run left, 1 by the exported"
    ):
        projects.pass_gate(workspace, NAME, "finalization")
    assert verify_workspace(workspace.path, evaluates=True).problems == []


@pytest.mark.requirement("GATE-6")
def test_a_server_killed_while_it_evaluates_leaves_the_run_to_the_next_one(at: At) -> None:
    workspace = at("planned")
    run_id = start_run(workspace, NAME, RunKind.BASELINE).run_id
    directory = workspace.run_directory(NAME, run_id)
    while directory.status().state is not RunState.COMPLETED or directory.is_locked():
        threading.Event().wait(0.05)

    def killed(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(follow.ledger, "record", die)

    call_and_die(killed, lambda: finish(workspace, run_id))
    assert entries(workspace, "run_evaluated") == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow.evaluation, "evaluated_soon", lambda *_: None)  # it takes longer than a call waits
        view = wait_for_run(workspace, run_id, 0)
    assert (view.state, view.sealed, view.is_ended) == (RunState.COMPLETED, False, False)
    assert view.next is not None
    assert view.next.tool == "run_status"
    others = [Workspace.open(workspace.path), workspace]
    threads = [threading.Thread(target=finish, args=(other, run_id)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    others[0].close()
    (found,) = entries(workspace, "run_evaluated")
    assert found["run_id"] == run_id
    assert found["splits"]["validation"]["rows"] == found["splits"]["validation"]["size"] > 0
    assert verify_workspace(workspace.path).problems == []


SHARE = {"metric": "share", "direction": "maximize", "target": 0.01}
OWN = "\n\ndef share(outputs, targets):\n    BEFORE\n    return float((outputs.argmax(1) == targets).float().mean())\n"


def planned_for_own(planned: Callable[..., Workspace], before: str) -> Workspace:
    """Return a workspace whose goal is in a function of the user's, which does something before it computes."""
    code, metric = MODEL + OWN.replace("BEFORE", before), {"use": "flower_model.py:share"}
    return planned(code, goal=SHARE, metrics=[metric], selection={"metric": "share", "direction": "maximize"})


@pytest.mark.requirement("GATE-6", "GATE-1")
def test_a_function_of_the_users_is_computed_of_the_programs_outputs_in_a_process_of_its_own(
    planned: Callable[..., Workspace],
) -> None:
    workspace = planned_for_own(planned, "targets = targets + 0")
    view = train(workspace, RunKind.BASELINE)
    (found,) = entries(workspace, "run_evaluated")
    of_validation = found["splits"]["validation"]
    assert of_validation["own"] == ["share"]
    low, high = of_validation["intervals"]["share"]
    assert of_validation["metrics"]["share"] == pytest.approx(view.best["value"])
    assert low < of_validation["metrics"]["share"] < high
    projects.pass_gate(workspace, NAME, "baseline")
    assert checks_of(workspace, "baseline")["baseline.independently_evaluated"]["status"] == "passed"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.long
@pytest.mark.requirement("GATE-6", "GATE-5", "GATE-1")
def test_a_function_puts_no_value_under_a_certified_name_and_none_of_the_process_that_it_knows_itself_in(
    planned: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_metrics, "command_of", environment.command_of)  # a fork would have the loop's modules
    trains = "\n\nimport sys\nTRAINS = any(name.endswith('trainer.engine.loop') for name in sys.modules)\n"
    several = "\n\ndef several(outputs, targets):\n"
    several += "    return 0.5 if TRAINS else {'several': 0.5, 'accuracy': 1.0, 'loss': 0.0}\n"
    flatter = "outputs = torch.nn.functional.one_hot(targets, 3) if TRAINS else outputs"
    code = MODEL + trains + OWN.replace("BEFORE", flatter) + several
    metrics = [{"use": "flower_model.py:share"}, {"use": "flower_model.py:several"}, "accuracy"]
    workspace = planned(code, goal=SHARE, metrics=metrics)
    train(workspace, RunKind.BASELINE)
    (found,) = entries(workspace, "run_evaluated")
    of_validation = found["splits"]["validation"]
    assert of_validation["metrics"]["accuracy"] == pytest.approx(found["reported"]["validation"]["accuracy"])
    assert of_validation["metrics"]["accuracy"] < 1
    assert of_validation["metrics"]["loss"] > 0
    assert "which is taken" in of_validation["not_computed"]["several"]
    assert of_validation["own"] == ["share"]
    (difference,) = found["differences"]
    assert "share" in difference
    assert "reported by the training process" in difference


@pytest.mark.long
@pytest.mark.requirement("GATE-6", "GATE-1")
def test_a_function_that_needs_more_than_its_file_passes_with_the_reason(planned: Callable[..., Workspace]) -> None:
    workspace = planned_for_own(planned, "open('iris.csv').close()")
    view = train(workspace, RunKind.BASELINE)
    assert "reported" not in view.best
    projects.pass_gate(workspace, NAME, "baseline")
    check = checks_of(workspace, "baseline")["baseline.independently_evaluated"]
    assert check["status"] == "not_applicable"
    assert (
        "share: your function needs more than it is given, its own file and those that it imports: FileNotFoundError"
        in check["measured"]
    )
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    answer = projects.pass_gate(workspace, NAME, "optimization")
    assert answer.goal.startswith("Goal reached: ")
    assert answer.goal.endswith("; not independently evaluated")
    assert project_status(workspace, NAME).reached == answer.goal
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("GATE-6", "GATE-3")
def test_verify_names_an_evaluation_that_was_written_by_hand(at: At) -> None:
    workspace = at("based")
    (found,) = entries(workspace, "run_evaluated")
    with workspace.session() as session:
        append(session, NAME, "run_evaluated", {**found, "program": "0" * 64})
    (problem,) = verify_workspace(workspace.path).problems
    assert "was evaluated twice without having been resumed" in problem


@pytest.mark.requirement("GATE-6", "GATE-3")
@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ({"program": "0" * 64}, "its evaluation is of another program"),
        ({"rows": "blake3:0"}, "its evaluation is on other rows than planning fixed"),
        ({"reported": {"validation": {"accuracy": 0.5}}}, "its evaluation names other figures than the run reported"),
    ],
)
def test_verify_compares_an_evaluation_with_what_was_sealed(
    at: At, rewrite: Any, edit: dict[str, Any], named: str
) -> None:
    workspace = at("based")

    def change(body: dict[str, Any]) -> None:
        if "rows_run" in body:
            body.update(edit)

    rewrite(workspace, "", change)
    assert any(named in problem for problem in verify_workspace(workspace.path).problems)


@pytest.mark.requirement("GATE-6", "GATE-3")
def test_figures_written_by_hand_are_found_by_evaluating_again(at: At, rewrite: Any) -> None:
    workspace = at("finished")

    def flatter(body: dict[str, Any]) -> None:
        if "rows_run" in body:
            body["splits"]["validation"]["metrics"]["loss"] *= 0.995

    rewrite(workspace, "", flatter)
    assert not any("evaluated again" in problem for problem in verify_workspace(workspace.path).problems)
    problems = verify_workspace(workspace.path, evaluates=True).problems
    assert any("validation loss recorded" in problem and "evaluated again" in problem for problem in problems)


@pytest.mark.requirement("CKPT-5", "PRED-1")
def test_a_release_answers_the_users_own_rows_with_the_certified_value_by_its_folder_alone(
    at: At, tmp_path: Path
) -> None:
    project = at("finished").project_folder(NAME)
    folder = Path(shutil.copytree(project / "final_model", tmp_path / "final_model"))
    lines = (project.parents[2] / "code" / "iris.csv").read_text().splitlines()
    placed = [line.split(",") for line in (folder / "rows.csv").read_text().splitlines()[1:]]
    tested = [lines[1 + int(row)] for row, split in placed if split == "test"]
    (tmp_path / "rows.csv").write_text("\n".join([lines[0], *tested]))
    (use,) = re.findall(r"^python predict\.py .*", (folder / "README.md").read_text(), re.MULTILINE)
    for line in (use, "python predict.py --json ../rows.csv"):
        told = [*shlex.split(line.replace("python", f"{sys.executable} -I -B", 1))]
        done = subprocess.run(told, capture_output=True, text=True, check=True, cwd=folder)
        answers = [json.loads(one) for one in done.stdout.splitlines()]
        assert all(set(one["answer"]) == {"label", "probability", "scores"} for one in answers)
    right = [one["answer"]["label"] == one["input"]["species"] for one in answers]
    certified = json.loads((folder / "evaluation.json").read_text())["certified"]["test"]
    assert sum(right) / len(right) == pytest.approx(certified["accuracy"])
