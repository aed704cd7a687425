"""Tasks: a client that knows them is given a handle that outlives the server; for all others calls are as they were."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, Literal

import anyio
import pytest
from mcp import MCPError
from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, CallToolResult, Request, Result
from pydantic import ConfigDict
from tests.server.conftest import GOAL, IRIS, Agent

from trainwright.server.app import build_server
from trainwright.server.tasks import TASKS
from trainwright.tools.launchers import read_launch

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-1", "MCP-3")]
LONG = {**IRIS, "training": {"epochs": 4000}}


class Begun(Result):
    """The answer that is a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"
    taskId: str  # noqa: N815 - as it is written


class Asking(ClientExtension):
    """A client's side: what a call has begun is asked about until it has ended."""

    identifier = TASKS

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Begun, resolve=self._resolve)]

    async def _resolve(self, begun: Begun, context: ClaimContext) -> CallToolResult:
        self.begun.append(begun.model_dump())
        found = await ended(context.session, begun.taskId)
        assert found["status"] == "completed", found
        return CallToolResult.model_validate(found["result"])


class Answered(Result):
    """Whatever is answered."""

    model_config = ConfigDict(extra="allow")


class About(Request[dict[str, Any], str]):
    """A request about a task, whose name travels as a header too."""

    name_param = "taskId"


async def ask(session: Any, what: str, task: str, **more: Any) -> dict[str, Any]:
    request = About(method=f"tasks/{what}", params={"taskId": task, **more})
    answer = (await session.send_request(request, Answered)).model_dump(by_alias=True)
    return {name: value for name, value in answer.items() if name != "_meta"}


async def ended(session: Any, task: str) -> dict[str, Any]:
    with anyio.fail_after(120):
        while (found := await ask(session, "get", task))["status"] == "working":
            await anyio.sleep(0.1)
    return found


def client_of(workspace: Any, *extensions: ClientExtension) -> Client:
    return Client(build_server(workspace), extensions=list(extensions) or [Asking()])


async def begin(client: Client, tool: str = "start_training", **arguments: Any) -> str:
    """Return the name of the task that a call begins."""
    found = await client.session.call_tool(tool, {"project": "iris", **arguments}, allow_claimed=True)
    assert isinstance(found, Begun), found
    return found.taskId


async def test_a_call_is_answered_at_once_with_a_handle_and_later_as_after_a_wait(workspace: Any) -> None:
    asking = Asking()
    async with client_of(workspace, asking) as client:
        agent = Agent(client)
        await agent.get("create_project", name="iris", intent="a test", goal=GOAL, config=IRIS)
        assert asking.begun == []
        found = await agent.get("start_training", project="iris", kind="smoke", wait_seconds=50)
        (begun,) = asking.begun
        assert (begun["taskId"], begun["status"], begun["ttlMs"]) == ("iris/smoke-1", "working", None)
        plain = await agent.get("run_status", run_id="iris/smoke-1")
    assert (found["run_id"], found["state"], found["next"]) == (plain["run_id"], "completed", plain["next"])


async def test_a_handle_outlives_the_server_and_a_cancelled_task_stays_so_while_its_run_goes_on(workspace: Any) -> None:
    async with client_of(workspace) as client:
        agent = Agent(client)
        await agent.get("create_project", name="iris", intent="a test", goal=GOAL, config=LONG)
        await ended(client.session, await begin(client, kind="smoke"))
        await agent.get("pass_gate", project="iris")
        task = await begin(client, kind="baseline")
    async with client_of(workspace) as client:
        found = await ask(client.session, "get", task)
        assert (found["taskId"], found["status"]) == ("iris/baseline-1", "working")
        assert await ask(client.session, "update", task, inputResponses={"x": {}}) == {"resultType": "complete"}
        while "step" not in (await ask(client.session, "get", task))["statusMessage"]:
            await anyio.sleep(0.1)
        for _ in range(2):
            assert await ask(client.session, "cancel", task) == {"resultType": "complete"}
        found = await ended(client.session, task)
        assert (found["status"], "result" in found) == ("cancelled", False)
        assert "resume_training goes on" in found["statusMessage"]
        resumed = await begin(client, "resume_training", run_id="iris/baseline-1")
        assert resumed == "iris/baseline-1#2"
        found = await ask(client.session, "get", task)
        assert (found["status"], found["statusMessage"]) == ("cancelled", "it goes on as iris/baseline-1#2")
        await ask(client.session, "cancel", resumed)
        assert (await ended(client.session, resumed))["status"] == "cancelled"


async def test_whoever_does_not_know_tasks_is_given_none_and_may_ask_about_none(workspace: Any) -> None:
    async with Client(build_server(workspace)) as client:
        agent = Agent(client)
        await agent.get("create_project", name="iris", intent="a test", goal=GOAL, config=IRIS)
        assert (await agent.get("start_training", project="iris", kind="smoke"))["run_id"] == "iris/smoke-1"
        for what in ("get", "cancel", "update"):
            with pytest.raises(MCPError) as refused:
                await ask(client.session, what, "iris/smoke-1")
            assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    async with client_of(workspace) as client:
        for name in ("iris/smoke-7", "iris/study-1", "elsewhere"):
            with pytest.raises(MCPError, match="smoke-1|no study|elsewhere") as refused:
                await ask(client.session, "get", name)
            assert refused.value.code == INVALID_PARAMS
        assert (await ended(client.session, "iris/smoke-1"))["status"] == "completed"


@pytest.mark.long
async def test_a_search_is_a_task_too(workspace: Any) -> None:
    async with client_of(workspace) as client:
        agent = Agent(client)
        await agent.get("create_project", name="iris", intent="a test", goal={**GOAL, "target": 0.999}, config=IRIS)
        await ended(client.session, await begin(client, kind="smoke"))
        await agent.get("pass_gate", project="iris")
        await ended(client.session, await begin(client, kind="baseline"))
        await agent.get("pass_gate", project="iris")
        factors = {"ablation": {"factors": {"optimizer.weight_decay": [0]}, "repeats": 3}}
        task = await begin(client, "start_tuning", search=factors)
        assert task == "iris/study-1"
        (folder,) = (workspace / "projects" / "iris" / "studies").iterdir()
        launch = read_launch(folder)
        assert launch is not None
        assert launch.process is not None
        assert launch.process.send_signal(signal.SIGKILL)
        found = await ended(client.session, task)
    relaunched = read_launch(folder)
    assert relaunched is not None
    assert relaunched.process != launch.process, "it was lost, and came back"
    assert found["status"] == "completed"
    assert found["result"]["structuredContent"]["study_id"] == "iris/study-1"
