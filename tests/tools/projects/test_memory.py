"""`next` has a memory: what came to nothing is not proposed again until something has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worlds.flowers import CONFIG, GOAL, NAME, finish

from trainwright.tools import projects
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.call_history import in_vain, is_unchanged
from trainwright.tools.gates.checks.optimization import _study_next
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_after_run import MIN_FREE_BYTES
from trainwright.tools.gates.searches import unused_keys
from trainwright.tools.ledger import Inspection
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config, runs_of
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Resolved

pytestmark = pytest.mark.slow

At = Callable[[str], Workspace]
MAX_CALLS = 8


def break_the_code(folder: Path) -> None:
    path = folder / "flower_model.py"
    path.write_text(path.read_text().replace("nn.Linear(4, width)", "nn.Linear(5, width)"))


def leave_few_rows(folder: Path) -> None:
    path = folder / "iris.csv"
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *rows[::8]]) + "\n")


def spoil_a_cell(folder: Path) -> None:
    path = folder / "iris.csv"
    path.write_text(path.read_text().replace("5.1,", "about five,", 1))


def status_of(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


def call_it(workspace: Workspace, call: NextCall) -> NextCall | None:
    """Make a call as the server would; a refusal's own next is what it gives."""
    arguments = dict(call.arguments)
    try:
        if call.tool == "start_training":
            return finish(workspace, start_run(workspace, NAME, RunKind(arguments["kind"])).run_id).next
        if call.tool == "diagnose_run":
            return projects.diagnose(workspace, NAME, arguments["run_id"]).next
        if call.tool == "configure":
            return projects.configure(workspace, NAME, changes=arguments["changes"]).next
        if call.tool == "pass_gate":
            return projects.pass_gate(workspace, NAME, arguments["phase"]).next
    except GateRefusedError as error:
        return NextCall.model_validate(error.details["next"])
    raise AssertionError(f"the test does not know {call}")


@pytest.mark.timeout(300)
@pytest.mark.requirement("GATE-7", "PHASE-10")
@pytest.mark.parametrize(
    "harm",
    [break_the_code, pytest.param(leave_few_rows, marks=pytest.mark.long), spoil_a_cell],
    ids=lambda harm: harm.__name__,
)
def test_following_next_never_makes_a_call_twice_on_the_same_digests(at: At, harm: Callable[[Path], None]) -> None:
    workspace = at("created")
    code = workspace.path.parent / "code"
    whole = {path: path.read_text() for path in code.iterdir() if path.is_file()}
    harm(code)
    made: list[tuple[str, str]] = []
    status = projects.project_status(workspace, NAME)
    assert isinstance(status, projects.ProjectStatus)
    call = status.next
    while call is not None and call.tool != "read_document":
        with workspace.session() as session:
            made.append((str(call), latest_config(session, NAME).digest))
        assert len(made) <= MAX_CALLS, made
        call = call_it(workspace, call)
    assert len(set(made)) == len(made), made
    assert call is not None, "it says what is to be mended"
    assert call.why
    again = projects.project_status(workspace, NAME).next  # type: ignore[union-attr]
    assert again is None or again.tool in {"read_document", "diagnose_run"}

    for path, text in whole.items():
        path.write_text(text)
    mended = projects.project_status(workspace, NAME).next  # type: ignore[union-attr]
    assert mended is not None
    assert (mended.tool, mended.arguments["kind"]) == ("start_training", "smoke")


@pytest.mark.timeout(300)
@pytest.mark.requirement("GATE-7", "GATE-2", "PIPE-3")
def test_a_smoke_run_that_failed_over_a_file_costs_no_bound_and_is_next_again_once_that_file_is_mended(at: At) -> None:
    workspace = at("empty")
    code = workspace.path.parent / "code"
    model = code / "flower_model.py"
    reading = "        import json; rows = rows * json.load(open('scale.json'))['scale']\n"
    model.write_text(model.read_text().replace("        return", f"{reading}        return"))
    (code / "scale.json").write_text("{}")
    bounds = {"metrics": ["balanced_accuracy"], "evaluation_gate": {"minimum": {"test/balanced_accuracy": 0.2}}}
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=CONFIG | bounds)
    view = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert "KeyError" in view.failure.message
    for call in (status_of(workspace).next, projects.diagnose(workspace, NAME, view.run_id).next):
        assert call is not None
        assert call.tool in {"read_document", "diagnose_run"}, call
    document = projects.diagnose(workspace, NAME, view.run_id).next
    assert document is not None
    assert view.failure.remedy in document.why, "the fix of that failure"
    (code / "scale.json").write_text('{"scale": 1.0}')
    mended = status_of(workspace).next
    assert mended is not None
    assert (mended.tool, mended.arguments["kind"]) == ("start_training", "smoke")


@pytest.mark.requirement("GATE-7")
def test_code_that_only_an_export_reads_is_a_change_too_and_a_listed_file_is_one_by_its_content(at: At) -> None:
    workspace = at("exported")
    code = workspace.path.parent / "code"

    def is_as_it_was() -> bool:
        with workspace.session() as session:
            evidence = Evidence(session, workspace, NAME)
            assert evidence.export is not None
            return is_unchanged(evidence, evidence.export)

    assert is_as_it_was()
    (code / "flower_model.py").write_text((code / "flower_model.py").read_text())
    (code / "notes.md").write_text("nothing")
    assert is_as_it_was(), "the same content, and no code"
    (code / "serve.py").write_text("def prepare(text):\n    return float(text)\n")
    assert not is_as_it_was()


@pytest.mark.requirement("GATE-7", "GATE-2")
def test_a_refusal_names_no_call_that_came_to_nothing(at: At) -> None:
    workspace = at("created")
    leave_few_rows(workspace.path.parent / "code")
    finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    for order in (
        lambda: projects.pass_gate(workspace, NAME, "planning"),
        lambda: start_run(workspace, NAME, RunKind.BASELINE),
    ):
        with pytest.raises(GateRefusedError) as refused:
            order()
        assert refused.value.details["next"]["tool"] != "start_training"


@pytest.mark.requirement("GATE-7")
def test_a_change_that_is_the_case_already_or_was_tried_and_left_is_in_vain(at: At) -> None:
    workspace = at("based")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.01})
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)

        def judged(rate: float) -> str:
            changes = {"optimizer.learning_rate": rate}
            return in_vain(evidence, NextCall(tool="configure", arguments={"project": NAME, "changes": changes}))

        assert "already" in judged(0.01)
        assert "tried" in judged(0.02)
        assert judged(0.005) == ""


@pytest.mark.requirement("GATE-7", "TRAIN-7")
@pytest.mark.parametrize(("args", "unused"), [({"lr": 0.01, "epochs": 2}, []), ({}, ["optimizer.learning_rate"])])
def test_a_search_over_the_numbers_that_a_users_trainer_is_given_is_proposed(
    args: dict[str, Any], unused: list[str]
) -> None:
    config = parse_config({"trainer": {"use": "train.py:make_trainer", "args": args}})
    run = SimpleNamespace(resolved=Resolved(ignored_keys=["optimizer", "schedule"]))
    project = SimpleNamespace(intent="train it")
    evidence: Any = SimpleNamespace(baseline=run, smoke=None, config=config, entries=lambda _: [], project=project)
    assert unused_keys(evidence) == unused


@pytest.mark.requirement("GATE-7")
def test_a_search_over_keys_that_the_run_makes_no_use_of_is_in_vain() -> None:
    config = parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}})
    run = SimpleNamespace(resolved=Resolved(ignored_keys=["optimizer", "schedule"]))
    evidence: Any = SimpleNamespace(
        baseline=run,
        smoke=None,
        config=config,
        name=NAME,
        config_digest="",
        session=SimpleNamespace(scalars=lambda q: []),
    )

    def judged(*keys: str) -> str:
        space = {key: {"type": "float", "low": 0.1, "high": 1.0} for key in keys}
        return in_vain(evidence, NextCall(tool="start_tuning", arguments={"search": {"trials": 2, "space": space}}))

    assert "optimizer.learning_rate" in judged("optimizer.learning_rate")
    assert judged("optimizer.learning_rate", "task.args.rate") == ""


@pytest.mark.requirement("GATE-7", "GATE-2")
@pytest.mark.parametrize("more", [{}, {"why": "it fits"}])
def test_after_a_study_whose_failure_names_a_search_that_search_is_next(more: dict[str, str]) -> None:
    wanted = {"project": NAME, "search": {"trials": 2}}
    remedy = {"tool": "start_tuning", "arguments": wanted, **more}
    failure = {"message": "None of the 2 completed trials keeps the bounds", "details": {"next": remedy}}
    body = {"study_id": "study-1", "state": "failed", "base_config_digest": "", "failure": failure}
    evidence: Any = SimpleNamespace(
        study=SimpleNamespace(id="study-1", state="failed"),
        spent="",
        config_digest="",
        entries=lambda _: [(1, body)],
    )
    found = _study_next(evidence)
    assert (found.tool, found.arguments) == ("start_tuning", wanted)
    assert "keeps the bounds" in (found.why or "")


@pytest.mark.requirement("GATE-7", "GATE-2", "TUNE-5")
@pytest.mark.parametrize(
    ("category", "ended", "wanted"),
    [
        ("storage", [1, 2], "start_tuning"),
        ("storage", [1, 1], "start_tuning"),
        ("storage", [1, 1, 1], "pass_gate"),
        ("workers_lost", [1, 2], "pass_gate"),
    ],
)
def test_a_study_that_met_a_full_disk_gets_room_first_and_goes_on_while_trials_end(
    category: str, ended: list[int], wanted: str, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = at("smoked")
    with workspace.session() as session:
        [run] = [run.id for run in runs_of(session, NAME)]
    search = {"trials": 4, "width": 2, "space": {"optimizer.learning_rate": {"type": "float", "low": 0.1, "high": 1.0}}}
    failure = {"category": category, "message": "no room", "details": {"run": run}}
    entries = [
        (number, {
            "study_id": "study-1", "state": "stopped", "base_config_digest": "", "search": search, "failure": failure,
            "trials": [{"state": "completed"}] * count + [{"state": "running"}],
        }) for number, count in enumerate(ended)
    ]  # fmt: skip
    evidence: Any = SimpleNamespace(
        inspection=Inspection(),
        name=NAME,
        study=SimpleNamespace(id="study-1", state="stopped"),
        improvement=({}, []),
        spent="",
        baseline=None,
        workspace=workspace,
        config_digest="",
        entries=lambda _: entries,
        call=lambda tool, why, **arguments: NextCall(tool=tool, arguments=arguments, why=why),
    )
    found = _study_next(evidence)
    assert found.tool == wanted
    free = shutil.disk_usage(workspace.path)
    largest = max(record.bytes for record in list_checkpoints(workspace.run_directory(NAME, run)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: free._replace(free=MIN_FREE_BYTES + 4 * largest - 1))
    found = _study_next(evidence)
    assert found.tool == ("prune_checkpoints" if wanted == "start_tuning" else wanted)
    if wanted == "start_tuning":
        assert "conclude=True" in (found.why or ""), "where nothing can be pruned there is an exit too"


@pytest.mark.requirement("GATE-7", "GATE-2", "PHASE-10")
def test_a_smoke_run_whose_data_cannot_pass_planning_says_so_in_its_own_answer(at: At) -> None:
    workspace = at("created")
    leave_few_rows(workspace.path.parent / "code")
    view = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    closed = {check.id: check for check in view.planning_closed_by}
    assert "validation 4" in closed["planning.data_volume"].measured
    assert "at least 10" in closed["planning.data_volume"].required
    assert view.next.tool != "pass_gate"

    fine = at("smoked")
    status = projects.project_status(fine, NAME)
    assert isinstance(status, projects.ProjectStatus)
    again = start_run(fine, NAME, RunKind.SMOKE)
    assert (again.planning_closed_by, status.next and status.next.tool) == (None, "pass_gate")
