"""`advance` follows what leaves nothing to decide, and stops where somebody has to choose."""

import pytest
from tests.worlds.scripted import scripted

from trainwright.tools.projects.advancing import FOLLOWED

pytestmark = pytest.mark.slow

HIGH = {"metric": "accuracy", "direction": "maximize", "target": 0.9999}


async def until_it_ends(agent, project, *, past=("wait", "alert")):
    """Call advance until it ends by something else; return the last answer and all steps."""
    steps = []
    for _ in range(10):
        answer = await agent.get("advance", project=project)
        steps += answer["steps"]
        if answer["ended"] not in past:
            return answer, steps
    raise AssertionError(steps)


@pytest.mark.requirement("GATE-7", "MCP-3", "MCP-5")
async def test_it_goes_through_planning_and_baseline_and_leaves_the_search_to_the_agent(in_memory, iris):
    config = {**iris, "optimizer": {"learning_rate": 0.02}}
    with scripted():
        async with in_memory() as agent:
            await agent.get("create_project", name="iris", intent="a test", goal=HIGH, config=config)
            answer, steps = await until_it_ends(agent, "iris")
            status = await agent.get("project_status", project="iris", detail="full")
    done = "\n".join(steps)
    places = [done.index(part) for part in ("iris/smoke-1", "planning passed", "iris/baseline-1", "baseline passed")]
    assert places == sorted(places), done
    assert answer["ended"] == "decision", answer
    call = answer["next"]
    assert call["tool"] not in FOLLOWED or set(call["arguments"]) - FOLLOWED[call["tool"]] - {"wait_seconds"}
    assert status["config_version"] == 1
    assert (status.get("study"), status["owner"]) == (None, [])
    assert [run["kind"] for run in status["runs"]] == ["baseline", "smoke"], "nothing is started twice"


@pytest.mark.requirement("MCP-3")
async def test_a_failed_run_ends_it_with_the_cause(in_memory, tmp_path, iris):
    (tmp_path / "net.py").write_text("class Net:\n    def __init__(self): raise KeyError('width')\n")
    async with in_memory() as agent:
        await agent.project(config={**iris, "model": {"use": "net.py:Net"}})
        answer, steps = await until_it_ends(agent, "iris")
    assert answer["ended"] == "failure"
    assert "failed" in steps[-1]
    assert "width" in answer["failure"]["message"]
    assert answer["next"]["tool"] == "diagnose_run"


@pytest.mark.requirement("MCP-3")
async def test_it_ends_with_its_wait_and_what_was_started_goes_on(in_memory, workspace, iris):
    workspace.mkdir(parents=True)
    (workspace / "settings.yaml").write_text("outer_launcher: true\n")
    async with in_memory() as agent:
        await agent.project(config={**iris, "distributed": {"launcher": "outer", "processes": 2}})
        assert (await agent.get("advance", project="iris", wait_seconds=0))["steps"] == []
        answer = await agent.get("advance", project="iris", wait_seconds=1)
        assert answer["ended"] == "wait"
        assert answer["steps"] == ["iris/smoke-1: created, step 0"]
        assert answer["next"] == {**answer["next"], "tool": "advance"}
        assert (await agent.get("advance", project="iris", wait_seconds=1))["steps"] == answer["steps"]
        assert (await agent.get("run_status", run_id="iris"))["state"] == "created"
        await agent.get("stop_training", project="iris")


async def test_it_raises_what_is_refused_at_once(in_memory):
    async with in_memory() as agent:
        assert "There is no project 'nope'" in await agent.refusal("advance", project="nope")
