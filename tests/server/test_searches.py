"""Searches as agents see them on a bad day: two agents at once, and a disk that is really full."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "flowers"
SEARCH = {
    "trials": 2,
    "method": "random",
    "pruning": {"name": "none"},
    "space": {"optimizer.learning_rate": {"type": "float", "low": 0.01, "high": 0.1, "log": True}},
}
ROOM = 4 << 20
ACTIVE = {"running", "confirming"}


@pytest.fixture
def workspace(flowers):
    """A workspace whose project has passed every gate before the optimization."""
    flowers.set_back("diagnosed")
    return flowers.workspace


async def until_trials(agent, study_id, count):
    """Follow a study until so many trials have completed, and none has failed. Its repetitions are another test's."""
    while (view := await agent.get("tuning_status", study_id=study_id)).get("completed", 0) < count:
        assert view["state"] in ACTIVE, view
        await anyio.sleep(0.2)
    assert not view.get("failed"), view


@pytest.mark.requirement("TUNE-3", "TUNE-5", "TUNE-7")
@pytest.mark.long
async def test_two_agents_that_search_at_once_share_the_same_search_and_keep_others_apart(warm_stdio, workspace):
    async with warm_stdio() as one, warm_stdio() as other:
        found = {}

        async def start(name, agent, search):
            found[name] = await agent.get("start_tuning", project=NAME, search=search)

        async with anyio.create_task_group() as group:
            group.start_soon(start, "mine", one, SEARCH)
            group.start_soon(start, "the same", other, SEARCH)
            group.start_soon(start, "another", other, SEARCH | {"seed": 7, "width": 2})
        assert found["mine"]["study_id"] == found["the same"]["study_id"] != found["another"]["study_id"]
        for name, agent in (("mine", other), ("another", one)):
            study_id = found[name]["study_id"]
            await until_trials(agent, study_id, SEARCH["trials"])
            await agent.call("stop_training", project=NAME, run_id=study_id)
    assert trials_in(workspace) == ["trial 1", "trial 1"], "none twice; trial 0 is the baseline's own run"


def trials_in(folder: Path) -> list[str]:
    """Return the labels of a workspace's trials."""
    opened = Workspace.open(folder)
    try:
        with opened.snapshot() as session:
            labels = [run.label or "" for run in runs_of(session, NAME, RunKind.TRIAL)]
        return sorted(label for label in labels if label.startswith("trial "))
    finally:
        opened.close()


def mounted(folder: Path, size: str) -> bool:
    """Put a small file system under what a folder holds; false where this user may not."""
    kept = folder.with_name("kept")
    folder.rename(kept)
    folder.mkdir()
    order = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    is_there = (
        shutil.which("mount") is not None and subprocess.run(order, check=False, capture_output=True).returncode == 0
    )
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    shutil.rmtree(kept)
    return is_there


@pytest.fixture
def small_disk(workspace):
    """The workspace on a disk of 64 MiB of its own."""
    if not mounted(workspace, "64m"):
        pytest.skip("this user may mount nothing: no disk to fill")
    yield workspace
    subprocess.run(["umount", "--lazy", str(workspace)], check=True)


@pytest.mark.long
@pytest.mark.requirement("TUNE-5", "TUNE-7")
async def test_a_search_on_a_disk_that_fills_up_waits_for_room_and_loses_nothing(warm_stdio, small_disk):
    ballast, search = small_disk / "ballast", SEARCH | {"trials": 4}
    async with warm_stdio() as agent:
        study_id = (await agent.get("start_tuning", project=NAME, search=search))["study_id"]
        await until_trials(agent, study_id, 2)
        with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while file.write(bytes(1 << 16)):
                pass
        while (full := await agent.get("tuning_status", study_id=study_id)).get("failure") is None:
            await anyio.sleep(0.1)
        assert full["failure"]["category"] == "storage"
        assert full["completed"] >= 2, "what was found stands"
        assert full["next"]["tool"] == "prune_checkpoints"
        os.truncate(ballast, ballast.stat().st_size - ROOM)  # what was deleted is recorded, and that takes room too
        await agent.get(full["next"]["tool"], **full["next"]["arguments"])
        ballast.unlink()
        if (await agent.get("tuning_status", study_id=study_id))["state"] not in ACTIVE:
            again = await agent.get("start_tuning", project=NAME, search=search)
            assert again["study_id"] == study_id
        await until_trials(agent, study_id, search["trials"])
        await agent.call("stop_training", project=NAME, run_id=study_id)
