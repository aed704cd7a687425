"""Whole studies of the product, with their conductor and workers, held against the replay line for line."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay import Curve, replay
from tasks import DIRECTION, GOAL, Task

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study, latest_config
from trainwright.trainer.config import SearchSection, config_digest, parse_config

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPARED = ("number", "parameters", "state", "value", "intermediate")


def differences(task: Task, seed: int, search: dict[str, Any], curves: Curve) -> tuple[list[str], int]:
    """Return a sentence for each line in which a real study and the replay differ, and the epochs it trained.

    Compared to the last bit are numbers, parameters, states, values and each epoch's value; and of each run that the
    epochs which it recorded are those of its line, each once.
    """
    with tempfile.TemporaryDirectory() as name:
        workspace = Workspace.open(Path(name) / "workspace", patience_seconds=120)
        try:
            task.prepare(Path(name))  # the folder of the workspace is the project's code root
            study_id = _in_full(workspace, task, seed, search)
            with workspace.session() as session:
                study, real = get_study(session, study_id), trials_of(session, study_id)
            settled = SearchSection.model_validate(study.search)
            replayed = replay(settled, DIRECTION, study.base_values, curves)
            trained = [_epochs(workspace, task, trial) for trial in real]
        finally:
            workspace.close()
    found = told(real, replayed)
    for trial, epochs in zip(real, trained, strict=True):
        if settled.pruning.bracket is not None and epochs != list(range(1, len(trial.intermediate) + 1)):
            found.append(f"trial {trial.number}: its run trained the epochs {epochs}")
    return found, sum(map(len, trained))


def told(real: list[TrialRecord], replayed: list[TrialRecord]) -> list[str]:
    """Return a sentence for each figure in which two trial tables differ, to the last bit."""
    found = [f"{len(real)} trials, replayed {len(replayed)}"] if len(real) != len(replayed) else []
    for one, other in zip(real, replayed, strict=False):
        for what in COMPARED:
            mine, theirs = getattr(one, what), getattr(other, what)
            if mine != theirs:
                found.append(f"trial {one.number}: {what} {mine!r}, replayed {theirs!r}")
    return found


def _in_full(workspace: Workspace, task: Task, seed: int, search: Mapping[str, Any]) -> str:
    """Run a study's trials to their end, and leave out its confirmation, which prunes nothing."""
    config = task.configuration(seed)
    create_project(workspace, task.name, intent="", goal=GOAL, config=config)
    with workspace.session() as session:
        values = latest_config(session, task.name).values
        digest = config_digest(parse_config(values))
        depended_on = {"configuration": digest, "values": values, "smoke_run": "", "runs": []}
        for phase in ("planning", "baseline", "diagnostics"):  # which are other benchmarks' matter
            body: dict[str, Any] = {
                "phase": phase,
                "outcome": "passed",
                "checks": [],
                "rested_on": depended_on,
                "artifacts": {},
            }
            ledger.append(session, task.name, "gate", body)
    study_id = start_study(workspace, task.name, search=dict(search)).study_id
    while (view := study_status(workspace, study_id, 1.0)).trials_done < search["trials"]:
        if view.is_ended:
            raise RuntimeError(f"{study_id} is {view.state}: {view.failure}")
    if not view.is_ended:
        stop_study(workspace, study_id)
    return study_id


def _epochs(workspace: Workspace, task: Task, trial: TrialRecord) -> list[int]:
    directory = workspace.run_directory(task.name, str(trial.run))
    return [int(event.data["epoch"]) for event in directory.events("epoch")]
