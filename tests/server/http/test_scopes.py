"""Scopes and projects of tokens, at every kind of call."""

import json
import time

import pytest
from mcp import MCPError
from mcp.types import EmptyResult, PromptReference, Request, SubscribeRequest
from sqlalchemy import select
from tests.server.conftest import GOAL, IRIS
from tests.server.test_tasks import Asking, ask

from trainwright.server.app import MAX_SUBSCRIBED
from trainwright.server.surface import TOOLS
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import RaisedAlert, Run

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
        ("configure", {"project": "first", "changes": {"evaluation_gate": '{"baseline": "second/smoke-1"}'}}),
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
        latest = (
            "runs/latest/status",
            "runs/ latest/status",
            "runs//latest/status",
            "runs/ /status",
        )  # of all projects, to whoever reads
        there = ("projects/second/status", "projects/%73econd/status", "runs/second/smoke-1/status", "runs/second")
        for uri in (*there, *latest):
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


async def test_a_refusal_names_no_project_of_others(served, runs):
    async with served.agent(served.token("ghost", "operate", "third")) as agent:
        for tool, arguments in (
            ("project_status", {"project": "third"}), ("run_status", {"run_id": "smoke"}), ("list_checkpoints", {}),
            ("estimate_cost", {"project": "third"}), ("compare_runs", {"project": "third"}),
        ):  # fmt: skip
            said = await agent.refusal(tool, **arguments)
            assert "second" not in said, said
            assert "first" not in said, said
        with pytest.raises(MCPError) as refused:
            await agent.client.read_resource("trainwright://projects/third/status")
        assert "first" not in str(refused.value)


async def test_who_reads_is_told_of_no_alert_that_others_are_to_act_on(served, runs):
    workspace = Workspace.open(served.workspace)
    with workspace.session() as session:
        (run,) = [one.id for one in session.scalars(select(Run)) if one.project == "second"]
        session.add(RaisedAlert(run=run, project="second", id="loss_nan", severity="critical", message="it is NaN",
                                document="diagnostics/nan_loss.md", fix="", step=1, raised_at=time.time(),
                                revision=999))  # fmt: skip
    workspace.close()
    async with served.agent(served.token("reader", "read")) as agent:
        assert "news" not in await agent.get("list_checkpoints", run_id="second/smoke-1")
    async with served.agent(served.token("maker")) as agent:
        news = (await agent.get("list_checkpoints", run_id="second/smoke-1"))["news"]
    assert [one["id"] for one in news] == ["loss_nan"]


async def test_who_reads_starts_no_code_by_asking_for_costs(served, runs, tmp_path):
    code = tmp_path / "mine.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom torch import nn\ndef net(): return nn.Linear(4, 3)\n")
    (served.workspace / "settings.yaml").write_text(f"code_roots: [{tmp_path}]\n")
    own = {**IRIS, "model": {"use": "mine.py:net"}, "code_root": str(tmp_path)}
    async with served.agent(served.token("maker")) as agent:
        await agent.project("costly", own)
    for name, ran in (("reader", False), ("maker", True)):
        async with served.agent(served.token(name, "read" if name == "reader" else "operate")) as agent:
            await agent.call("estimate_cost", project="costly", hardware=["T4"])
        assert (tmp_path / "ran").exists() == ran


async def test_subscriptions_are_kept_of_what_changes_and_no_longer_than_their_client(served, runs):
    async with served.agent(served.token("maker"), mode="legacy") as agent:
        client = agent.client
        await subscribed(client, "legacy", "trainwright://runs/" + "x" * 10**5 + "/status")
        await subscribed(client, "legacy", "test://anything")
        for number in range(MAX_SUBSCRIBED):
            await subscribed(client, "legacy", f"trainwright://runs/first/smoke-{number}/status")
        with pytest.raises(MCPError, match="At most 64 subscriptions"):
            await subscribed(client, "legacy", "trainwright://projects/first/status")
    async with served.agent(served.token("maker"), mode="legacy") as agent:
        await subscribed(agent.client, "legacy", "trainwright://projects/first/status")
