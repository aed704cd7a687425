"""Runs as an agent sees them: started at once, awaited within bounds, and safe from the death of the server."""

import json

import anyio
import psutil
import pytest

pytestmark = pytest.mark.slow

LONG = {"epochs": 10**6, "validate_every_n_epochs": 50}
"""A training that outlasts every test; it is stopped by the test itself."""


async def stopped(agent, run_id, project="iris"):
    """Stop a run, as often as it takes while it is only starting, and wait for its end."""
    for _ in range(60):
        result = await agent.call("stop_training", project=project, run_id=run_id)
        if not result.is_error:
            return await agent.ended(run_id)
        await anyio.sleep(0.5)
    raise AssertionError(f"{run_id} could not be stopped")


async def past(agent, run_id, step):
    """Wait until the run is past a step."""
    for _ in range(6):
        view = await agent.get("run_status", run_id=run_id, wait_seconds=50, after_step=step)
        assert view["state"] in {"created", "starting", "running"}, view
        if view["step"] > step:
            return view
    raise AssertionError(f"{run_id} does not get past step {step}")


@pytest.mark.requirement("MCP-3", "MCP-5", "PHASE-2")
async def test_a_smoke_run_brings_the_evidence_that_opens_planning(in_memory, iris):
    async with in_memory() as agent:
        first = await agent.project(config={**iris, "loader": {"prefetch_factor": 4}})
        assert first["next"]["tool"] == "advance"
        assert first["next"]["arguments"] == {"project": "iris"}
        assert "start_training(project='iris', kind='smoke')" in first["next"]["why"]
        order = {"project": "iris", "kind": "smoke"}
        view = await agent.get("start_training", **order, idempotency_key="smoke-1")
        assert view["next"]["tool"] == "run_status", "the worker has just begun to import torch"
        again = await agent.get("start_training", **order, idempotency_key="smoke-1")
        assert again["run_id"] == view["run_id"], "the same key must not start a second run"
        done = await agent.ended(view["run_id"])
        assert done["state"] == "completed"
        assert done["ignored_keys"] == ["loader.prefetch_factor"], "workers prefetch, and there is none"
        assert any("MLP.forward(x): inputs by their order" in line for line in done["model"]), done["model"]
        assert len(json.dumps(done)) / 4 < 2000
        assert done["next"]["tool"] == "pass_gate"
        gate = await agent.get("pass_gate", **done["next"]["arguments"])
        assert gate["now_in"] == "baseline"
        listed = await agent.get("list_checkpoints", run_id=view["run_id"], verify=True)
        assert listed["problems"] == []
        plot = await agent.call("plot_metrics", run_ids=[view["run_id"]])
        (picture,) = [block for block in plot.content if block.type == "image"]
        assert picture.mime_type == "image/png"
        compared = await agent.get("compare_runs", run_ids=[view["run_id"], view["run_id"]])
        assert compared["differences"] == {}
        resource = await agent.client.read_resource(f"trainwright://runs/{view['run_id']}/status")
        assert json.loads(resource.contents[0].text)["state"] == "completed"


@pytest.mark.requirement("MCP-3", "TRAIN-10")
async def test_a_server_killed_during_training_loses_nothing(warm_stdio, server_process, iris):
    async with warm_stdio() as agent:
        await agent.project(config={**iris, "training": LONG, "early_stopping": {"enabled": False}})
        view = await agent.get("start_training", project="iris", kind="smoke", max_steps=10**9)
        run_id = view["run_id"]
        before = await past(agent, run_id, 0)
        process = server_process()
        process.kill()
        psutil.wait_procs([process], timeout=20)
    async with warm_stdio() as agent:
        status = await agent.get("project_status", project="iris")
        assert [(run["run_id"], run["state"]) for run in status["runs"]] == [(run_id, "running")]
        after = await past(agent, run_id, before["step"])
        assert "attempt" not in after, "the worker is the same"
        ended = await stopped(agent, run_id)
        assert (ended["state"], ended["next"]["tool"]) == ("stopped", "resume_training")


BAD_CODE = {
    "raises": ("def __init__(self): raise KeyError('width')", "width"),
    "hangs": ("def __init__(self): import time; time.sleep(10**6)", "longer than 10 s"),
}
"""What else it may do is in tests/trainer/user_code/test_user_code.py."""


@pytest.mark.long
@pytest.mark.requirement("MCP-3")
async def test_whatever_user_code_does_the_agent_is_told_and_the_server_lives(in_memory, tmp_path, iris):
    """The projects run side by side; every failure comes with its cause and a remedy."""
    (tmp_path / "mine").mkdir()
    async with in_memory() as agent:
        runs = {}
        for name, (body, _) in BAD_CODE.items():
            code = f"from torch import nn\nclass Net(nn.Module):\n    {body}\n"
            (tmp_path / "mine" / f"{name}.py").write_text(code)
            config = {**iris, "model": {"use": f"{name}.py:Net"}, "code_root": "mine"}
            await agent.project(name, config, limits={"user_code_seconds": 2 if name == "hangs" else 100})
            runs[name] = (await agent.get("start_training", project=name, kind="smoke"))["run_id"]
        for name, run_id in runs.items():
            view = await agent.ended(run_id)
            assert view["state"] == "failed", view
            failure = view["failure"]
            assert failure["category"] == "user_code"
            assert BAD_CODE[name][1] in failure["message"] + failure.get("traceback", ""), name
            assert failure["remedy"]
            assert view["next"]["tool"] == "diagnose_run"
            diagnosis = await agent.get("diagnose_run", **view["next"]["arguments"])
            assert diagnosis["recommendation"] == "debug"
            assert diagnosis["failure"] == failure


@pytest.mark.requirement("GATE-2", "PHASE-4")
async def test_a_project_whose_smoke_run_failed_is_diagnosed_by_that_run(in_memory, iris, text):
    wide = {"model": {"use": "mlp", "args": {"hidden": [2**20, 2**20]}}}
    async with in_memory() as agent:
        await agent.project(config={**iris, **wide})
        assert "no run of it failed" in await agent.refusal("diagnose_run", project="iris")
        run_id = (await agent.get("start_training", project="iris", kind="smoke"))["run_id"]
        view = await agent.ended(run_id)
        result = await agent.call("diagnose_run", project="iris")
        found = result.structured_content
        assert (found["run_id"], found["kind"], found["state"]) == (run_id, "smoke", "failed")
        assert found["failure"] == view["failure"]
        assert found["failure"]["category"] == "out_of_memory"
        for part in (run_id, found["failure"]["message"], found["failure"]["remedy"].removesuffix(".")):
            assert part in text(result), "also for clients that show the text alone"
        assert [alert["id"] for alert in found["alerts"]] == ["model_too_large"]
        assert found["next"]["tool"] == "configure"
        (sizes,) = found["next"]["arguments"]["changes"].values()
        assert max(sizes) < 2**20
        answer = await agent.get("configure", **found["next"]["arguments"])
        assert answer["changed"]["model.args.hidden"] == [[2**20, 2**20], sizes]
        assert answer["next"]["arguments"] == {"project": "iris", "kind": "smoke", "wait_seconds": 50}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"code_root": "../.."}, "Only the workspace's owner may allow this: code_root"),
        ({"model": {"use": "mlp", "size": 3}}, "unknown key `model.size`"),
        ({"training": {"epochs": "many"}}, "`training.epochs` = 'many'"),
        ({"data": None}, "model"),
    ],
)
async def test_a_configuration_that_cannot_work_makes_no_project(in_memory, iris, config, said):
    async with in_memory() as agent:
        goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
        told = await agent.refusal("create_project", name="bad", intent="x", goal=goal, config={**iris, **config})
        assert said in told
        assert (await agent.get("project_status"))["projects"] == []


@pytest.mark.requirement("GATE-4")
async def test_a_call_for_one_project_leaves_the_runs_of_another_alone(in_memory, iris, workspace):
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "settings.yaml").write_text("outer_launcher: true\n")
    waiting = {**iris, "distributed": {"launcher": "outer", "processes": 2}}
    async with in_memory() as agent:
        await agent.project("mine", iris)
        await agent.project("theirs", waiting)
        run_id = (await agent.get("start_training", project="theirs", kind="smoke"))["run_id"]
        for tool in ("stop_training", "resume_training", "diagnose_run", "verify_reproducibility"):
            said = await agent.refusal(tool, project="mine", run_id=run_id)
            assert "mine" in said
            assert "Remedy: " in said
        assert (await agent.get("run_status", run_id=run_id))["state"] == "created"
        for tool in ("stop_training", "resume_training"):
            said = await agent.refusal(tool, run_id="latest")
            assert "`project` is required" in said
        await agent.get("stop_training", run_id=run_id)  # which names its project
        assert (await agent.get("run_status", run_id=run_id))["state"] == "interrupted"
