"""A run ends for an alert that only the server finds, for a real client whose server dies; the owner lets it go on."""

import os
import subprocess

import anyio
import psutil
import pytest
from tests.variants import variants
from tests.worlds.warm import trainwright_command

from trainwright.tools.verification import verify_workspace
from trainwright.trainer.run import RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DIAG-11", "MON-1", "MON-3")]
GROWING = """
import time
from pathlib import Path

from torch import nn


class Net(nn.Module):
    \"\"\"Learns for a while; then its outputs, and with them its loss and gradients, grow, and stay finite.\"\"\"

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += self.training
        if self.calls > 150 and not Path(__file__).with_name("fast").exists():
            time.sleep(0.05)
        return self.layer(x) * (1.0 if self.calls < 150 else 3000.0)
"""
ALERT, HARM = "bad_samples", "exploding_gradients"
"""The cause, a warning by itself, and the consequence that is critical."""
STEPS = 2400


@pytest.fixture
def growing(workspace, iris):
    """A configuration whose loss comes back up, and which takes two minutes where nothing stops it."""
    code = workspace.parent / "mine"
    code.mkdir()
    (code / "model.py").write_text(GROWING)
    long = {"epochs": STEPS // 4, "validate_every_n_epochs": 50, "clip_norm": None}
    own = {"model": {"use": "model.py:Net"}, "code_root": "mine", "training": long}
    return {**iris, **own, "early_stopping": {"enabled": False}}


async def until_alert(agent, run_id):
    """Wait until the run has an alert of its curves, or has ended."""
    for _ in range(12):
        view = await agent.get("run_status", run_id=run_id, wait_seconds=20)
        if view["alerts"] or view["state"] not in {"created", "starting", "running"}:
            return
    raise AssertionError(view)


@pytest.mark.parametrize("policy", variants(["checkpoint", "stop"], quick=["checkpoint"]))
@pytest.mark.long
async def test_a_run_whose_curves_go_critical_is_saved_and_ends_once_and_goes_on_when_the_owner_accepts_it(
    warm_stdio, server_process, workspace, growing, policy
):
    growing["monitoring"] = {"on_critical": policy}
    async with warm_stdio() as agent:
        await agent.project("iris", growing)
        run_id = (await agent.get("start_training", project="iris", kind="smoke", max_steps=STEPS))["run_id"]
        if policy == "stop":
            await until_alert(agent, run_id)
        process = server_process()
        process.kill()
        psutil.wait_procs([process], timeout=20)
    async with warm_stdio() as agent:
        view = await agent.ended(run_id)
        directory = RunDirectory(next((workspace / "projects" / "iris" / "runs").iterdir()))
        named = [event for event in directory.events("alert") if event.data.get("found_by") == "server"]
        assert [(event.data["id"], HARM in event.data["because_of"]) for event in named] == [(ALERT, True)], view
        assert 150 < view["step"] < STEPS
        assert directory.events("checkpoint")[-1].data["step"] == view["step"], "saved where it ended"
        assert ALERT in {alert["id"] for alert in view["alerts"]}
        own = {"project": "iris", "run_id": run_id}
        if policy == "checkpoint":
            assert (view["state"], view["stop_reason"]) == ("stopped", f"alert: {ALERT}")
        else:
            assert (view["state"], view["failure"]["category"]) == ("failed", "alert")
            assert ALERT in view["failure"]["message"]
            assert "ask_owner" in await agent.refusal("resume_training", **own)
        assert (view["next"]["tool"], ALERT in view["next"]["why"]) == ("configure", True)
        assert (await agent.get("diagnose_run", **own))["verdict"] == "stop"
        asked = await agent.get("configure", project="iris", ask_owner={"alert": ALERT}, reason="it is meant to")
        (request,) = asked["requests"]
        command = [*trainwright_command(os.environ), "approve", "-w", str(workspace), "--yes", request["request"]]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout + told.stderr
        assert (await agent.get("run_status", run_id=run_id))["next"]["tool"] == "resume_training"
        (workspace.parent / "mine" / "fast").touch()
        await agent.get("resume_training", **own)
        view = await agent.ended(run_id)
        while view["attempt"] < 2 or view["state"] in {"created", "starting", "running"}:
            await anyio.sleep(0.2)
            view = await agent.ended(run_id)
        assert (view["state"], view["step"], view["attempt"]) == ("completed", STEPS, 2), view
        assert len([event for event in directory.events("alert") if event.data.get("found_by")]) == 1
    assert not verify_workspace(workspace).problems
