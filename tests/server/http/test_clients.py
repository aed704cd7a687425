"""Clients of both eras over HTTP: the tools, resources and subscriptions that they have over stdio."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from mcp.types import ElicitResult
from tests.server.conftest import IRIS
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


@ERAS
async def test_a_client_hears_that_the_list_of_resources_has_changed_and_of_nothing_else(tmp_path, mode):
    heard = []

    async def handler(message):
        heard.append(getattr(message, "method", ""))

    async def names(agent):
        return {one.name for one in (await agent.client.list_resources()).resources}

    with serving(tmp_path / "workspace") as served:
        async with served.agent(served.token("lister"), mode=mode, message_handler=handler) as agent:
            await agent.project("first", IRIS)
            async with listening(agent.client, mode, heard) as changed:
                assert "first" in await names(agent)
                await agent.get("project_status", project="first")
                heard.clear()
                await agent.get("configure", project="first", changes={"training.epochs": 3})
                await asyncio.sleep(0.5)
                assert not changed(), "what the list shows is the same"
                await agent.project("second", IRIS)
                await until(changed)
                assert {"first", "second"} <= await names(agent)
                heard.clear()
                started = await agent.get("start_training", project="second", kind="smoke", wait_seconds=0)
                await until(changed)
                assert started["run_id"] in await names(agent)
                await agent.ended(started["run_id"])
        async with served.agent(served.token("bound", "read", "first"), mode=mode) as agent:
            assert {"first", "second", started["run_id"]} & await names(agent) == {"first"}


@asynccontextmanager
async def listening(client, mode, heard):
    """Yield whether a change of the list has come, which clients of the newest era ask to hear of."""

    def changed():
        return "notifications/resources/list_changed" in heard

    if mode == "legacy":
        yield changed
        return
    async with client.listen(resources_list_changed=True) as events:

        async def note():
            async for event in events:
                heard.append({"ResourcesListChanged": "notifications/resources/list_changed"}[type(event).__name__])

        noting = asyncio.create_task(note())
        yield changed
        noting.cancel()


async def until(true):
    for _ in range(300):
        if true():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it has not come")


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
