"""Experiments: ideas in code run from snapshots while the gates stay, and only gains beyond the noise are kept."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.flowers import CONFIG, MODEL, NAME

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import Experiment, _measured, chain_of
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.ablation.section import checked_changes
from trainwright.tools.hyperparameter_tuner.experiments.git_history import write_history
from trainwright.tools.hyperparameter_tuner.experiments.start import _require_same_judge
from trainwright.tools.reports.model_card import _tried
from trainwright.tools.training_orchestrator.snapshots import of_accepted_code, take_snapshot
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.config import parse_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

At = Callable[[str], Workspace]
RATE = "optimizer.learning_rate"
DIFFERS = "code differs from that of experiment-1 too, and both are tried: code='experiment-1' tries the changes"


def tried(workspace: Workspace, idea: str, said: str = "", **given: Any) -> tuple[StudyView, dict[str, Any]]:
    view = start_study(workspace, NAME, search={"experiment": {"idea": idea, **given}, "width": 2})
    assert said in str(view.taken_as)
    while not view.is_ended:
        view = study_status(workspace, view.study_id, 10)
    assert view.state == "completed", view.failure
    assert view.ablation is not None
    return view, view.ablation


def with_logins(code: Path) -> Path:
    (code / "vendor").mkdir()
    (code / "vendor" / "other.py").write_text("")
    (code / "gone").mkdir()
    (code / "gone" / ".gitignore").write_text("*")
    for login in (
        code / "login.yaml",
        code / "vendor" / "login.yaml",
        code / "gone" / "key.yaml",
        code.parent / "key.yaml",
    ):
        login.write_text("key: of the user's")
    (code / "linked.yaml").symlink_to(code.parent / "key.yaml")
    return code


@pytest.mark.requirement("TUNE-5", "PHASE-8", "GATE-2")
def test_ideas_in_code_are_judged_from_snapshots_and_the_kept_one_is_the_next_incumbent(at: At) -> None:
    workspace = at("diagnosed")
    code = workspace.path.parent / "code"
    with pytest.raises(ConfigurationError, match="those of planned do: there is nothing to compare"):
        start_study(workspace, NAME, search={"experiment": "the same again"})
    with pytest.raises(ConfigurationError, match="cannot be varied"):
        start_study(
            workspace, NAME, search={"experiment": {"idea": "another split", "changes": {"data.split.seed": 7}}}
        )
    with pytest.raises(NotFoundError, match="no 'experiment-9'"):
        start_study(workspace, NAME, search={"experiment": {"idea": "as then", "code": "experiment-9"}})
    (code / "flower_model.py").write_text(f"# a comment\n{MODEL}")
    with pytest.raises(ConfigurationError, match="there is nothing to compare"):
        start_study(workspace, NAME, search={"experiment": "a comment is no idea"})
    (with_logins(code) / "flower_model.py").write_text(MODEL.replace("self.layers(rows)", "self.layers(0 * rows)"))
    view, worse = tried(workspace, "look at nothing", max_repeats=3)
    assert (worse["verdict"], worse["against"], worse["incumbent"]) == ("discarded", "planned", "planned")
    assert view.trials_done == 4, "two seeds were enough"
    assert tried(workspace, "the same again", max_repeats=3)[0].study_id == view.study_id, "no second verdict"
    assert view.next is not None
    found = re.match(
        "the next idea goes on from planned, whose code lies in (.*)[.] Or leave the ideas: ", view.next.why
    )
    assert found is not None
    assert (Path(found[1]) / "flower_model.py").read_text() == MODEL
    (code / "flower_model.py").write_text(MODEL.replace("16", "64"))
    seen = {"changes": {RATE: 0.1}, "against": "experiment-1", "max_repeats": 3}
    view, better = tried(workspace, "wider, a higher rate, and eyes", DIFFERS, **seen)
    assert (better["verdict"], better["incumbent"]) == ("kept", "planned"), "a branch takes nobody's place"
    assert view.next is not None
    assert view.next.why.startswith("it was kept against experiment-1, and planned is the incumbent: try it on top")
    (code / "flower_model.py").write_text(f"{MODEL}\nraise ValueError('of mine')\n")
    view, broken = tried(workspace, "an error", max_repeats=3)
    assert (broken["against"], broken["verdict"]) == ("planned", "crashed")
    assert "of mine" in broken["conclusion"]
    assert view.next is not None
    assert view.next.why.startswith("correct the code and start it again; or ")
    assert [line.partition(",")[0] for line in broken["journal"]] == ["experiment-1", "experiment-2", "experiment-3"]
    report = (workspace.project_folder(NAME) / "experiments.md").read_text()
    assert "2 of `flowers` were judged, 1 kept, beside 1 that crashed, stopped or confirmed a chain" in report
    assert "wider, a higher rate, and eyes" in report
    assert len(re.findall(r"0\.\d+ against 0\.\d+ \(seed \d+\)", report)) == 5, (
        "two seeds of the first, three of the next"
    )
    assert len(re.findall(r"failed against 0\.\d+ \(seed \d+\)", report)) == 2
    with workspace.session() as session:
        card = render("reports/tried.md.j2", tried=_tried(Evidence(session, workspace, NAME)))
    assert "- experiment-2, wider, a higher rate, and eyes, against experiment-1: kept: " in card
    status = projects.project_status(workspace, NAME)
    assert status.phase == "planning", "the folder is not what the plan was made for"
    assert "correct the code and start it again" in repr(status.next), "an edit is the next idea"
    table = (workspace.project_folder(NAME) / "experiments.tsv").read_text().splitlines()
    assert [line.split("\t")[3] for line in table] == ["verdict", "discarded", "kept", "crashed"]
    (code / "flower_model.py").write_text(MODEL)
    assert projects.project_status(workspace, NAME).phase == "optimization", "and no experiment has closed anything"
    assert verify_workspace(workspace.path).problems == []
    held_in_git(workspace, code)


def held_in_git(workspace: Workspace, code: Path) -> None:
    """Assert that each state of the code can be had from git, on what it was compared with, and nothing else moves."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=code, capture_output=True, text=True, check=True).stdout

    with pytest.raises(ConfigurationError, match="for no repository"):
        write_history(workspace, NAME)
    author = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    for top in (code / "vendor", code.parent):  # git answers for no list that a repository within is part of
        subprocess.run(["git", "init", "-q", str(top)], check=True)
        (top / ".gitignore").write_text("login.yaml")
        subprocess.run(["git", "-C", str(top), "add", "--", ".gitignore"], check=True)
        subprocess.run(["git", *author, "-C", str(top), "commit", "-qm", "mine"], check=True)
    git("-c", "advice.addEmbeddedRepo=false", "add", "vendor")
    (hook := code.parent / ".git" / "hooks" / "reference-transaction").write_text(
        f"#!/bin/sh\ntouch {code.parent}/hooked\n"
    )
    hook.chmod(0o755)
    shutil.rmtree(code / "gone")
    before = git("status", "--porcelain")
    refs = write_history(workspace, NAME)
    planned, *others = refs
    assert [ref.rpartition("/")[2] for ref in others] == ["experiment-1", "experiment-2", "experiment-3"]
    assert git("show", f"{planned}:./flower_model.py") == MODEL
    assert git("show", f"{others[1]}:./flower_model.py") == MODEL.replace("16", "64")
    held = git("ls-tree", "-r", "--full-tree", "--name-only", others[0]).split()
    assert [name.partition("code/")[2] for name in held if "flower" not in name] == ["vendor/other.py"]
    assert git("log", "--format=%s", others[1]).split("\n")[:2] == ["wider, a higher rate, and eyes", "look at nothing"]
    assert git("rev-parse", f"{others[2]}^") == git("rev-parse", planned)
    ids = git("rev-parse", *refs)
    assert (write_history(workspace, NAME), git("rev-parse", *refs)) == (refs, ids), (
        "the same history, the same commits"
    )
    assert git("status", "--porcelain") == before


@pytest.mark.requirement("GATE-2")
def test_an_edit_is_the_next_idea_unless_the_rows_are_others_too(at: At) -> None:
    workspace = at("diagnosed")
    code = workspace.path.parent / "code"
    begun = start_study(workspace, NAME, search={"experiment": {"idea": "slower", "changes": {RATE: 0.01}}})
    stop_study(workspace, begun.study_id)
    (code / "flower_model.py").write_text(MODEL.replace("16", "64"))
    assert "the next idea goes on from planned" in projects.project_status(workspace, NAME).next.why
    rows = (code / "iris.csv").read_text().splitlines(keepends=True)
    (code / "iris.csv").write_text("".join(rows[:-20]))
    assert "idea" not in projects.project_status(workspace, NAME).next.why, "no experiment is permitted"


@pytest.mark.requirement("GATE-5")
@pytest.mark.parametrize("named", ["judge.py:score", "judge:score", "judge.py:Judge.score"])
@pytest.mark.parametrize("edited", ["judge.py", "helper.py", "helper/__init__.py"])
def test_what_judges_results_is_not_edited_in_an_experiment(at: At, named: str, edited: str) -> None:
    workspace = at("diagnosed")
    code = workspace.path.parent / "code"
    (code / "judge.py").write_text("from helper import best\n\ndef score(*_): return best\n")
    (code / "helper.py").write_text("best = 0.5\n")
    with workspace.session() as session:
        accepted = of_accepted_code(Evidence(session, workspace, NAME))
        vars(accepted)["config"] = parse_config({**CONFIG, "metrics": [named]})
        then = take_snapshot(workspace, NAME, code)
        (code / edited).parent.mkdir(exist_ok=True)
        with (code / edited).open("a") as file:
            file.write("best = 1.0\n")
        with pytest.raises(ConflictError, match=f"{edited} makes the rows or judges the results"):
            _require_same_judge(accepted, then, take_snapshot(workspace, NAME, code))
        _require_same_judge(accepted, then, then)


def test_the_chain_is_what_was_kept_against_what_was_kept_before() -> None:
    def of(name: str, against: str, verdict: str = "kept", *, confirms: bool = False) -> Experiment:
        return Experiment(
            name, "", "", name, {}, against=against, against_code=against, verdict=verdict, confirms=confirms
        )

    tried = [
        of("1", "p"), of("2", "1", "undecided"), of("3", "1"), of("4", "p", confirms=True), of("5", "1"), of("6", "p"),
        of("7", "3"),
    ]  # fmt: skip
    assert [one.name for one in chain_of(tried, Experiment.of_plan("p"))] == ["planned", "1", "3", "7"]
    assert [one.name for one in chain_of(tried, Experiment.of_plan("3"))] == ["planned", "7"], "3 has become the plan"
    assert [one.name for one in chain_of(tried, Experiment.of_plan("new"))] == ["planned"]
    whole = [replace(of(name, name, confirms=True), code="7") for name in ("p", "1")]
    assert _measured(whole, chain_of(tried, Experiment.of_plan("p"))) == whole[0], "against the plan alone"


def test_values_that_are_valid_together_alone_are_taken() -> None:
    base = {**CONFIG, "code_root": "."}
    changes = {"optimizer.name": "sgd", "optimizer.momentum": 0.9}
    assert checked_changes(changes, base, NAME)[0] == changes
    with pytest.raises(ConfigurationError, match="momentun"):
        checked_changes({"optimizer.name": "sgd", "optimizer.momentun": 0.9}, base, NAME)
