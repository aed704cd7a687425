"""Real studies on the GPUs of an owner's list: the same trials as without any, beside another project's study."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.tools import ledger
from trainwright.tools.gpus.assign import Claim, claims_of
from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.room_notes import need_of
from trainwright.tools.hyperparameter_tuner.start_points import earlier_runs
from trainwright.tools.hyperparameter_tuner.trials import trials_of
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.requirement("TUNE-3")]
SEARCH: dict[str, Any] = {
    "trials": 4,
    "width": 2,
    "method": "random",
    "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True}},
    "pruning": {"name": "none"},
}


def conducted(workspace: Workspace, *studies: str) -> list[list[Claim]]:
    """Follow studies until their trials are done, and stop them; return the claims of each look."""
    looks = []
    deadline = time.monotonic() + 600.0
    while not all(study_status(workspace, study).trials_done == SEARCH["trials"] for study in studies):
        looks.append(claims(workspace))
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for study in studies:
        stop_study(workspace, study)
    return looks


def claims(workspace: Workspace) -> list[Claim]:
    with workspace.session() as session:
        return claims_of(session, workspace)


def table_of(workspace: Workspace, study: str) -> list[dict[str, Any]]:
    with workspace.session() as session:
        trials = trials_of(session, study)
    return [{key: value for key, value in vars(trial).items() if key != "run"} for trial in trials]


def gpus_of_trials(workspace: Workspace, project: str, study: str) -> set[str]:
    with workspace.session() as session:
        bodies = [body for _, body in ledger.entries(session, project, "run_started") if body["study"] == study]
    return {gpu["id"] for body in bodies for gpu in body.get("gpus", [])}


@pytest.mark.long
def test_studies_that_share_gpus_in_turns_are_the_study_that_was_given_none(
    workspace: Workspace, make_project: Callable[..., str], owner_lists: Callable[..., None]
) -> None:
    for name in ("alone", "packed", "first", "second"):
        make_project(workspace, name, training={"epochs": 2})
    alone = start_study(workspace, "alone", search=SEARCH | {"trials_per_gpu": "auto"})
    assert any("trials_per_gpu = 'auto' is ignored" in note for note in alone.taken_as or [])
    conducted(workspace, alone.study_id)
    assert gpus_of_trials(workspace, "alone", alone.study_id) == set()
    expected = table_of(workspace, alone.study_id)

    owner_lists(a="A100", b="H100")
    packed = start_study(workspace, "packed", search=SEARCH | {"trials_per_gpu": 2})
    assert any("one kind of GPU" in note for note in packed.taken_as or [])
    looks = conducted(workspace, packed.study_id)
    assert max(len(look) for look in looks) == 2, "two trials share a GPU"
    assert len(gpus_of_trials(workspace, "packed", packed.study_id)) == 1, "the other GPU is of another kind"
    assert table_of(workspace, packed.study_id) == expected
    with workspace.session() as session:
        [run, *_] = [run for run in runs_of(session, "packed", RunKind.TRIAL) if run.state == "completed"]
    for name, count in (("A100", 1), ("H100", 0)):
        owner_lists(c=name)
        found = list(earlier_runs(workspace, "packed", run.config_digest, RunKind.TRIAL, study="another"))
        assert len(found) == count, "a study takes over no run of another kind of GPU"

    owner_lists(a="A100", b="A100")
    first = start_study(workspace, "first", search=SEARCH).study_id
    deadline = time.monotonic() + 60.0
    while len(claims(workspace)) < 2:  # it has both
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = start_study(workspace, "second", search=SEARCH).study_id
    looks = conducted(workspace, first, second)
    assert not any(one.gpus == other.gpus for look in looks for one in look for other in look if one is not other)
    assert any({claim.project for claim in look} == {"first", "second"} for look in looks), "each had one at a time"
    assert table_of(workspace, first) == table_of(workspace, second) == expected


def test_a_search_that_is_wider_than_its_gpus_runs_in_turns_and_says_so(
    workspace: Workspace, make_project: Callable[..., str], owner_lists: Callable[..., None]
) -> None:
    make_project(workspace, "wide", training={"epochs": 2})
    owner_lists(a="A100")
    view = start_study(workspace, "wide", search=SEARCH | {"trials": 2})
    assert any("1 GPU(s) hold 1 trial(s) at once: a wave runs in turns" in note for note in view.taken_as or [])
    waited = ""
    while not waited and not (view := study_status(workspace, view.study_id)).is_ended:
        waited = view.waiting or ""
        time.sleep(0.02)
    assert waited.startswith("1 run(s) wait for a GPU; on the GPUs are trial-wide-")
    assert len(claims(workspace)) == 1
    again = start_study(workspace, "wide", search=SEARCH | {"trials": 2, "trials_per_gpu": 2})
    assert again.study_id == view.study_id, "how trials share a GPU makes no other search"
    stop_study(workspace, view.study_id)
    assert need_of(workspace, view.study_id).runs_per_gpu == 1
    start_study(workspace, "wide", search=SEARCH | {"trials": 2, "trials_per_gpu": 2})
    assert need_of(workspace, view.study_id).runs_per_gpu == 2, "one that goes on shares them as asked"
    stop_study(workspace, view.study_id)
    assert [problem for problem in verify_workspace(workspace.path).problems if "stud" in problem] == []
