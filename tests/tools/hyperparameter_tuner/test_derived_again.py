"""Trial tables that `verify` derives again: an honest one, and ones that were edited while the study was under way."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import table_of
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools.hyperparameter_tuner import start_study
from trainwright.tools.hyperparameter_tuner.conductor import next_wave
from trainwright.tools.hyperparameter_tuner.halving import PASSED, carry_out_bracket
from trainwright.tools.hyperparameter_tuner.trial_run import carry_out
from trainwright.tools.hyperparameter_tuner.trials import PRUNED
from trainwright.tools.training_orchestrator import resume_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import RUNG, RunSpecification

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPACE = {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True}}
SEARCH: dict[str, Any] = {
    "trials": 6,
    "width": 2,
    "space": SPACE,
    "pruning": {"name": "median", "startup_trials": 1, "warmup_epochs": 1},
}
HALVED: dict[str, Any] = {
    "trials": 3,
    "seed": 7,  # the trials of another seed: the first study's runs would be taken over
    "space": SPACE,
    "pruning": {"name": "successive_halving", "bracket": 3, "warmup_epochs": 1},
}
BEFORE = 4
"""Trials that the study under way has ended."""


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    value = 0.9 - 0.1 * abs(math.log10(plan.config.optimizer.learning_rate or 1.0) + 2) - 0.1 / epoch
    return {"loss": 1 - value, "accuracy": value}


@pytest.fixture(scope="module")
def studies(module_workspace: Workspace, make_project: Callable[..., str]) -> Iterator[tuple[Workspace, str, str]]:
    """Two studies under way, whose trials no entry of the ledger tells yet: judged alone, and halved."""
    with scripted(Script(curve=curve)) as launcher:
        launcher.is_conducting = False
        make_project(module_workspace, training={"epochs": 3})
        alone = start_study(module_workspace, "digits", search=SEARCH).study_id
        while len(trials := next_wave(module_workspace, alone)) and trials[0].number < BEFORE:
            for trial in trials:
                carry_out(module_workspace, alone, trial)
        halved = start_study(module_workspace, "digits", search=HALVED).study_id
        next_wave(module_workspace, halved)
        carry_out_bracket(module_workspace, halved, 0)
        yield module_workspace, alone, halved


def told(workspace: Workspace) -> list[str]:
    return [finding.what for finding in verify_workspace(workspace.path).findings if finding.where == "study"]


def edit(workspace: Workspace, study_id: str, number: int, **columns: Any) -> dict[str, Any]:
    """Write into a trial's row as someone with a shell can; return what was there."""
    with sqlite3.connect(workspace.path / "workspace.sqlite") as database:
        place = "WHERE study = ? AND number = ?"
        query = f"SELECT {', '.join(columns)} FROM trials {place}"
        row = database.execute(query, (study_id, number)).fetchone()
        for name, value in columns.items():
            statement = f"UPDATE trials SET {name} = ? {place}"
            database.execute(statement, (value, study_id, number))
    return dict(zip(columns, row, strict=True))


@pytest.mark.requirement("TUNE-3", "TUNE-7", "GATE-3")
def test_an_honest_table_follows_from_its_search(studies: tuple[Workspace, str, str]) -> None:
    workspace, alone, halved = studies
    report = verify_workspace(workspace.path)
    assert [finding.what for finding in report.findings if "study" in finding.what] == []
    assert report.checked["searches"] == SEARCH["trials"] + HALVED["trials"]
    assert len(table_of(workspace, alone)) == SEARCH["trials"]
    assert [trial.state for trial in table_of(workspace, halved)].count(PRUNED) == 2


@pytest.mark.requirement("TUNE-7", "GATE-3", "GATE-5")
def test_a_parameter_that_was_edited_is_named_while_the_study_is_under_way(
    studies: tuple[Workspace, str, str],
) -> None:
    workspace, alone, _ = studies
    was = edit(workspace, alone, 1, parameters=json.dumps({"optimizer.learning_rate": 0.05}))
    assert f"study {alone}: trial 1 has parameters that do not follow from the trials before it" in told(workspace)
    edit(workspace, alone, 1, **was)
    assert told(workspace) == []


@pytest.mark.requirement("TUNE-7", "GATE-3", "GATE-5")
def test_a_value_that_was_edited_is_named_with_its_run(studies: tuple[Workspace, str, str]) -> None:
    workspace, alone, _ = studies
    trial = table_of(workspace, alone)[0]
    was = edit(workspace, alone, 0, value=0.999)
    expected = f"study {alone}: trial 0 has other values than its run {trial.run} recorded"
    assert expected in told(workspace)
    edit(workspace, alone, 0, **was)
    was = edit(workspace, alone, 0, state=PRUNED, value=None)
    found = told(workspace)
    assert any(f"study {alone}: trial 0 is pruned, which does not follow" in what for what in found), found
    edit(workspace, alone, 0, **was)
    assert told(workspace) == []


@pytest.mark.requirement("TUNE-2", "TUNE-7", "GATE-5")
def test_another_promotion_than_the_rule_gives_is_named(studies: tuple[Workspace, str, str]) -> None:
    workspace, _, halved = studies
    table = table_of(workspace, halved)
    last = next(trial for trial in table if trial.state == PRUNED)
    first = next(trial for trial in table if trial.state != PRUNED)
    promoted = json.dumps(last.attributes | {PASSED: 1})
    kept = [edit(workspace, halved, last.number, attributes=promoted)]
    kept.append(edit(workspace, halved, first.number, attributes=json.dumps(first.attributes | {PASSED: 0})))
    assert any("at epoch 1 other trials than the best" in what for what in told(workspace))
    for trial, was in zip((last, first), kept, strict=True):
        edit(workspace, halved, trial.number, **was)
    assert told(workspace) == []


@pytest.mark.requirement("TUNE-2", "TRAIN-10")
def test_a_trial_that_was_given_up_at_a_rung_is_not_resumed(studies: tuple[Workspace, str, str]) -> None:
    workspace, _, halved = studies
    given_up = next(trial for trial in table_of(workspace, halved) if trial.state == PRUNED)
    directory = workspace.run_directory("digits", str(given_up.run))
    assert directory.status().stop_reason == RUNG
    with pytest.raises(ConflictError, match="was pruned by its study at epoch 1") as refused:
        resume_run(workspace, str(given_up.run), project="digits")
    assert f"tuning_status(study_id='{halved}')" in refused.value.remedy
    assert refused.value.details["next"] == {"tool": "tuning_status", "arguments": {"study_id": halved}}
