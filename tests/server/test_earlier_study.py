"""Studies that an earlier version recorded: today's code reads them, and goes on with one that was stopped."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from trainwright.tools.hyperparameter_tuner.trials import trials_of
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import study_named

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RECORDED = Path(__file__).parents[1] / "tools/hyperparameter_tuner/earlier_version/workspace.tar.xz"
SPACE = {"optimizer.learning_rate": {"type": "float", "low": 0.01, "high": 0.3, "log": True}}
COMPLETED = {"trials": 3, "seed": 7, "space": SPACE, "confirmation_repeats": 3}
STOPPED = {"trials": 4, "seed": 8, "space": SPACE}
MOST_CALLS = 8


@pytest.fixture
def workspace(tmp_path):
    """The recorded workspace, in another folder than it was made in."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path / "workspace", filter="data")
    return tmp_path / "workspace"


def table_of(folder: Path, handle: str):
    """Number, parameters and value of a study's trials that have ended."""
    opened = Workspace.open(folder)
    try:
        with opened.snapshot() as session:
            return [(one.number, one.parameters, one.value) for one in trials_of(session, study_named(session, handle))
                    if one.value is not None]  # fmt: skip
    finally:
        opened.close()


async def back_in_optimization(agent):
    """Follow the next calls from the refusal of a stale gate until the phase permits trials again.

    Return whether the gate was carried over under the same packages: where a machine computes other bits than the
    recording one, or by other packages, planning is passed anew, and a table that would mix both is not gone on with.
    """
    view = await agent.get("configure", project="iris", changes={"code_root": "."})
    for _ in range(MOST_CALLS):
        call = view["next"]
        if call["tool"] == "start_tuning" or call["arguments"].get("phase") == "optimization":
            status = await agent.get("project_status", project="iris", detail="full")
            remarks = [one for one in status.get("remarks") or [] if "carried over" in one]
            return any("environment" not in one for one in remarks)
        view = await agent.get(call["tool"], **call["arguments"])
        assert view.get("state") in {None, "completed"}, view
    raise AssertionError(f"{MOST_CALLS} calls, and still {view['next']}")


@pytest.mark.long
@pytest.mark.requirement("TUNE-5", "TUNE-7", "PHASE-5")
async def test_a_study_of_an_earlier_version_is_read_and_a_stopped_one_goes_on(over_stdio, workspace):
    before = {handle: table_of(workspace, handle) for handle in ("iris/study-1", "iris/study-2")}
    assert [len(table) for table in before.values()] == [3, 1]
    async with over_stdio(cwd=workspace.parent) as agent:
        old = await agent.get("tuning_status", study_id="iris/study-1")
        assert (old["state"], old["best"]["number"]) == ("completed", 1)
        assert (await agent.get("tuning_status", study_id="iris/study-2"))["state"] == "stopped"
        same = await agent.get("start_tuning", project="iris", search=COMPLETED)
        assert same["study_id"] == old["study_id"], "a search that has been made is not made again"
        refused = await agent.refusal("start_tuning", project="iris", search=STOPPED)
        assert "The planning gate is stale" in refused
        assert 'configure(project="iris", changes={"code_root"' in refused

        is_carried = await back_in_optimization(agent)
        again = await agent.get("start_tuning", project="iris", search=STOPPED)
        assert again["study_id"] == ("iris/study-2" if is_carried else "iris/study-3")
        while again["state"] in {"running", "confirming"}:
            again = await agent.get("tuning_status", study_id=again["study_id"], wait_seconds=50)
        assert (again["state"], again["completed"]) == ("completed", 4), again
        if is_carried:
            assert again["confirmation"]["seeds"] == old["confirmation"]["seeds"], "the configuration is the same"
            assert again["confirmation"]["look"] == 2, "the earlier version's look counts"
        gate = await agent.refusal("pass_gate", project="iris", phase="optimization")
        assert "not on the configuration's own" not in gate
    after = {handle: table_of(workspace, handle) for handle in before}
    assert after["iris/study-1"] == before["iris/study-1"]
    assert after["iris/study-2"][:1] == before["iris/study-2"], "nothing is lost, and nothing is made anew"
    problems = [told for told in verify_workspace(workspace).problems if "study" in told or "trial" in told]
    assert problems == [], "every suggestion is derived again, of both versions"
