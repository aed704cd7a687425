"""Clients of both eras over HTTP: the tools, resources and subscriptions that they have over stdio."""

import asyncio

import pytest
from mcp.types import ElicitResult
from tests.server.http.conftest import serving

from trainwright.server.surface import TOOLS

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-1")]
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@ERAS
async def test_a_client_lists_calls_reads_and_completes(served, projects, mode):
    async with served.agent(served.token("client"), mode=mode) as agent:
        assert (agent.client.protocol_version >= "2026-07-28") == (mode == "auto")
        assert len((await agent.client.list_tools()).tools) == len(TOOLS)
        assert (await agent.get("project_status", project="first"))["phase"] == "planning"
        (status,) = (await agent.client.read_resource("trainwright://projects/first/status")).contents
        assert '"planning"' in status.text
        assert "There is no project" in await agent.refusal("project_status", project="frist")


@ERAS
async def test_a_run_goes_on_when_its_client_has_left(served, projects, mode):
    async with served.agent(served.token("starter"), mode=mode) as agent:
        started = await agent.get("start_training", project="first", kind="smoke", wait_seconds=0)
    async with served.agent(served.token("finder"), mode=mode) as agent:
        assert (await agent.ended(started["run_id"]))["state"] == "completed"


async def test_several_clients_are_served_at_once_and_see_the_same_list(served, projects):
    async def calls(number):
        mode = "legacy" if number % 2 else "auto"
        async with served.agent(served.token(f"many-{number % 3}"), mode=mode) as agent:
            for _ in range(3):
                assert (await agent.get("project_status"))["total"] == 2
            return [tool.model_dump() for tool in (await agent.client.list_tools()).tools]

    first, *others = await asyncio.gather(*(calls(number) for number in range(8)))
    assert all(other == first for other in others)


@ERAS
@pytest.mark.requirement("GATE-4")
@pytest.mark.parametrize(("scope", "outcome"), [("operate", ("pending", 0)), ("own", ("granted", 1))])
async def test_only_a_token_of_the_owners_grants_over_its_connection(served, projects, mode, scope, outcome):
    shown = []

    async def show(_context, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content={"answer": "grant"})

    settings = served.workspace / "settings.yaml"
    text = settings.read_text()
    settings.write_text(text.replace("approvals: [terminal]", "approvals: [terminal, elicitation]"))
    grant = {"exemption": f"op_{scope}_{mode}"}
    async with served.agent(served.token(scope, scope), mode=mode, elicitation_callback=show) as agent:
        answer = await agent.get("configure", project="first", ask_owner=grant, reason="why not")
    assert (answer["requests"][-1]["state"], len(shown)) == outcome


async def test_a_read_only_server_refuses_every_tool_that_may_change_something(tmp_path):
    with serving(tmp_path / "workspace", read_only=True) as served:
        async with served.agent(served.token("all", "own")) as agent:
            tools = (await agent.client.list_tools()).tools
            for tool in tools:
                if not tool.annotations.read_only_hint:
                    assert "This server is read-only" in await agent.refusal(tool.name)
            assert (await agent.get("project_status"))["total"] == 0
