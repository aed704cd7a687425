"""Scopes and projects of tokens, at every kind of call."""

import json

import pytest
from mcp import MCPError
from mcp.types import EmptyResult, PromptReference, Request, SubscribeRequest
from tests.server.conftest import GOAL
from tests.server.test_tasks import Asking, ask

from trainwright.server.surface import TOOLS

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-4")]


async def test_a_token_to_read_calls_what_only_reads_and_sees_the_same_tools(served, projects):
    async with served.agent(served.token("reader", "read")) as agent:
        listed = [tool.name for tool in (await agent.client.list_tools()).tools]
        assert listed == [tool.name for tool in TOOLS]
        assert (await agent.get("project_status"))["total"] == 2
        for tool in TOOLS:
            if not tool.annotations.read_only_hint:
                said = await agent.refusal(tool.name)
                assert f"'reader' has the scope read, and {tool.name} needs operate" in said
                assert "trainwright tokens new" in said


@pytest.fixture
async def runs(served, projects):
    """A run of each project."""
    async with served.agent(served.token("maker")) as agent:
        for name in projects:
            if not (await agent.get("project_status", project=name)).get("runs"):
                started = await agent.get("start_training", project=name, kind="smoke", wait_seconds=0)
                await agent.ended(started["run_id"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("project_status", {"project": "second"}),
        ("project_status", {"name": "second"}),
        ("configure", {"project": "second", "changes": {"training.epochs": 1}}),
        ("configure", {"project": "first", "changes": {"evaluation_gate.baseline": "second/smoke-1"}}),
        ("configure", {"project": "first", "changes": {"evaluation_gate": {"basline": "second"}}}),
        ("configure", {"project": "first", "changes": {"evaluation_gate.baseline": "second@v1"}}),
        ("run_status", {"run_id": "second/smoke-1"}),
        ("run_status", {"run_id": "second"}),
        ("run_status", {"run_id": "second/latest"}),
        ("run_status", {"run_id": "smoke-second"}),
        ("run_status", {"project": "second"}),
        ("tuning_status", {"study_id": "second/study-1"}),
        ("compare_runs", {"run_ids": ["first/smoke-1", "second/smoke-1"]}),
        ("compare_runs", {"project": "second"}),
        ("plot_metrics", {"run_ids": ["second/smoke-1"]}),
        ("list_checkpoints", {"run_id": "second/smoke-1"}),
        ("stop_training", {"project": "first", "run_id": "second/smoke-1"}),
        ("diagnose_run", {"run_id": "second/smoke-1"}),
        ("create_project", {"name": "third", "intent": "x", "goal": GOAL}),
        ("open_dashboard", {}),
    ],
)
async def test_a_token_of_one_project_is_refused_all_others(served, runs, tool, arguments):
    async with served.agent(served.token("bound", "operate", "first")) as agent:
        assert "'bound' is bound to the projects first" in await agent.refusal(tool, **arguments)


async def test_a_long_id_of_another_project_is_refused_too(served, runs):
    (name,) = [path.name for path in (served.workspace / "projects" / "second" / "runs").iterdir()]
    async with served.agent(served.token("bound", "operate", "first")) as agent:
        assert "is bound to the projects first" in await agent.refusal("run_status", run_id=name)
        assert "is bound to the projects first" in await agent.refusal("run_status", run_id=name[:-3])


async def test_what_a_bound_token_leaves_out_is_about_its_own_project(served, runs):
    async with served.agent(served.token("bound", "operate", "first")) as agent:
        listed = await agent.get("project_status")
        assert ([project["project"] for project in listed["projects"]], listed["total"]) == (["first"], 1)
        for arguments in ({}, {"run_id": "latest"}, {"run_id": "first"}):
            assert (await agent.get("run_status", **arguments))["run_id"] == "first/smoke-1"
    async with served.agent(served.token("two", "operate", "first", "second")) as agent:
        assert "Name one of first, second" in await agent.refusal("run_status")
        assert (await agent.get("run_status", run_id="second"))["run_id"] == "second/smoke-1"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_resources_completions_and_subscriptions_are_bound_as_well(served, runs, mode):
    async with served.agent(served.token("bound", "operate", "first"), mode=mode) as agent:
        client = agent.client
        assert (await client.read_resource("trainwright://projects/first/status")).contents
        assert (await client.read_resource("trainwright://runs/first/smoke-1/status")).contents
        assert (await client.read_resource("trainwright://documents/SKILL.md")).contents
        for uri in ("projects/second/status", "projects/%73econd/status", "runs/second/smoke-1/status", "runs/second"):
            with pytest.raises(MCPError, match="bound to the projects first"):
                await client.read_resource(f"trainwright://{uri}")
        with pytest.raises(MCPError, match="bound to the projects first"):
            await subscribed(client, mode, "trainwright://projects/second/status")
        await subscribed(client, mode, "trainwright://projects/first/status")
        prompt = PromptReference(type="ref/prompt", name="status")
        found = await client.complete(prompt, {"name": "project", "value": ""})
        assert found.completion.values == ["first"]


async def subscribed(client, mode, uri):
    if mode == "legacy":
        await client.session.send_request(SubscribeRequest(params={"uri": uri}), EmptyResult)
    else:
        async with client.listen(resource_subscriptions=[uri]):
            pass


async def test_tasks_are_those_of_a_tokens_projects_and_one_that_reads_cancels_none(served, runs):
    async with served.agent(served.token("of_first", "operate", "first"), extensions=[Asking()]) as agent:
        assert (await ask(agent.client.session, "get", "first/smoke-1"))["status"] == "completed"
        for what in ("get", "cancel"):
            with pytest.raises(MCPError, match="is bound to the projects first"):
                await ask(agent.client.session, what, "second/smoke-1")
        unnamed = Request[dict[str, str], str](method="tasks/get", params={"taskId": "first/smoke-1"})
        with pytest.raises(MCPError, match="does not name the task"):
            await agent.client.session.send_request(unnamed, EmptyResult)
    async with served.agent(served.token("reader", "read"), extensions=[Asking()]) as agent:
        assert (await ask(agent.client.session, "get", "second/smoke-1"))["status"] == "completed"
        with pytest.raises(MCPError, match="has the scope read"):
            await ask(agent.client.session, "cancel", "second/smoke-1")
    lines = [json.loads(line) for line in (served.workspace / "logs" / "http.jsonl").read_text().splitlines()]
    found = [(line["token"], line["method"], line["project"], line["outcome"]) for line in lines]
    assert ("of_first", "tasks/cancel", "second", "refused") in found
    assert ("reader", "tasks/get", "second", "answered") in found
