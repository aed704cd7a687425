"""Fixes are tried for a real client over stdio, and go on when its server dies."""

from __future__ import annotations

import psutil
import pytest

pytestmark = pytest.mark.slow

SICK = {
    "model": {"use": "mlp"},
    "data": {"use": "diabetes"},
    "loss": "mse",
    "optimizer": {"learning_rate": 100.0},  # its loss climbs, and stays finite
    "training": {"epochs": 5},
    "logging": {"tensorboard": False},
    "monitoring": {"on_critical": "tell"},
}


@pytest.mark.requirement("DIAG-8", "DIAG-10", "MCP-5")
@pytest.mark.long
async def test_a_trial_of_a_fix_survives_the_death_of_its_server_and_proposes_what_cured(
    warm_stdio, server_process, text
):
    async with warm_stdio() as agent:
        goal = {"metric": "loss", "direction": "minimize", "target": 6000.0}
        await agent.get("create_project", name="sugar", intent="a test", goal=goal, config=SICK)
        await agent.get("start_training", project="sugar", kind="smoke", wait_seconds=50)
        await agent.ended("sugar/smoke-1")
        seen = await agent.get("diagnose_run", run_id="sugar/smoke-1")
        assert (seen["verdict"], seen["next"]["arguments"]["fix"]) == ("stop", "try")
        begun = await agent.get("diagnose_run", run_id="sugar/smoke-1", fix="clip_gradients")
        assert begun["trial"]["state"] == "running"
        assert (await agent.get("run_status"))["run_id"] == "sugar/cure-1", "the newest is the one under way"
        process = server_process()
        process.kill()
        psutil.wait_procs([process], timeout=20)
    async with warm_stdio() as agent:
        answer = await agent.get("diagnose_run", run_id="sugar/smoke-1")
        while answer["trial"]["state"] == "running":
            if answer["next"]["tool"] == "run_status":
                await agent.ended(answer["next"]["arguments"]["run_id"])
            answer = await agent.get("diagnose_run", run_id="sugar/smoke-1")
        (result,) = answer["trial"]["results"]
        assert (result["fix"], result["cured"]) == ("clip_gradients", "yes"), answer["trial"]
        assert result["value_after"] < result["value_before"]
        assert answer["next"]["tool"] == "configure", "what was proven is the next call"
        assert answer["next"]["arguments"]["changes"] == {"training.clip_norm": 1.0}
        shown = text(await agent.call("diagnose_run", run_id="sugar/smoke-1"))
        assert len(shown) / 4 < 1200
        assert "clip_gradients" in shown
