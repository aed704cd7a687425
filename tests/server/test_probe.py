"""A probe run as an agent meets it: started by name, small to read, its plots at hand, its suggestion ready to call."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SLOW_RATE = {"optimizer": {"learning_rate": 1e-6}}


@pytest.mark.long
@pytest.mark.requirement("TRAIN-8", "TUNE-6", "MCP-5", "GATE-1", "DIAG-7")
async def test_a_probe_answers_small_with_plots_and_a_call_that_applies_what_it_found(in_memory, iris, workspace):
    async with in_memory() as agent:
        await agent.project(config={**iris, **SLOW_RATE})
        run_id = (await agent.get("start_training", project="iris", kind="probe", max_steps=5))["run_id"]
        view = await agent.ended(run_id)
        assert (view["kind"], view["state"], view.get("failure")) == ("probe", "completed", None)
        assert len(json.dumps(view)) / 4 < 1000, "tokens, at four characters each"
        found = view["result"]
        assert set(found["phases_percent"]) >= {"data", "forward", "backward", "optimizer", "logging"}
        assert found["bottleneck"].partition(":")[0] in found["phases_percent"]
        assert found["samples_per_second"] > 0
        assert found["batch_sizes"]["32"] > 0
        assert len(found["plots"]) == 2
        for plot in found["plots"]:
            assert Path(plot).is_relative_to(workspace)
            assert Path(plot).read_bytes().startswith(b"\x89PNG"), plot
        assert found["changes"]["optimizer.learning_rate"] == found["suggested_learning_rate"] > 1e-5
        assert view["next"]["tool"] == "configure"
        assert view["next"]["arguments"]["changes"] == found["changes"]
        listed = await agent.get("list_checkpoints", run_id=run_id)
        assert listed["checkpoints"] == []
        status = await agent.get("project_status", project="iris")
        assert status["next"]["arguments"]["kind"] == "smoke", "a probe opens no gate"
        seen = await agent.get("diagnose_run", run_id=run_id)
        (alert,) = [one for one in seen["alerts"] if one["id"] == "learning_rate_off_curve"]
        assert alert["severity"] == "warning"
        proposed = seen["next"]
        assert proposed["arguments"]["changes"]["optimizer.learning_rate"] == pytest.approx(
            found["suggested_learning_rate"], rel=0.06
        ), "the suggestion, which has two digits"
        answer = await agent.get("configure", **view["next"]["arguments"])
        assert answer["changed"]["optimizer.learning_rate"] == [1e-6, found["suggested_learning_rate"]]


@pytest.mark.requirement("TRAIN-8", "TRAIN-6", "GATE-2")
async def test_a_probe_of_several_processes_is_refused_with_the_probe_of_one(in_memory, iris):
    async with in_memory() as agent:
        await agent.project(config={**iris, "distributed": {"processes": 2}})
        said = await agent.refusal("start_training", project="iris", kind="probe")
        assert "A probe measures one process, and `distributed.processes` is 2." in said
        assert "changes={'distributed.processes': 1}" in said
        assert (await agent.get("project_status", project="iris"))["runs"] == []
        alone = {"distributed.processes": 1, "optimizer.learning_rate": "fast"}
        said = await agent.refusal("start_training", project="iris", kind="probe", changes=alone)
        assert 'start_training(project="iris", kind="probe", changes={"distributed.processes": 1}' in said
