"""A wait is one call where the client hears progress, and ends in time for those that do not."""

import math
import time
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp.client._memory import InMemoryTransport
from tests.server.conftest import Agent

from trainwright.server import bounded_wait
from trainwright.server.app import build_server
from trainwright.server.progress import Progress, duration, sparkline
from trainwright.tools.training_orchestrator import wait

ERAS = ("2025-11-25", "2026-07-28")
HIGH = {"metric": "accuracy", "direction": "maximize", "target": 0.9999}


class Hearing(Agent):
    """An agent whose client asks for progress, and keeps what it hears."""

    def __init__(self, client):
        super().__init__(client)
        self.heard = []
        self.hears = anyio.Event()

    async def call(self, tool, /, **arguments):
        return await self.client.call_tool(tool, arguments, progress_callback=self._hear)

    async def _hear(self, done, total, message):
        self.heard.append((done, total, message))
        if "step" in message:
            self.hears.set()


@pytest.fixture
def brief(monkeypatch):
    """A wait without progress ends at once, and progress is reported often."""
    monkeypatch.setattr(bounded_wait, "PLAIN_SECONDS", 0.1)
    monkeypatch.setattr(bounded_wait, "MAX_SECONDS", 0.2)
    monkeypatch.setattr(bounded_wait, "FIRST_SECONDS", 0.2)


@pytest.fixture(params=[pytest.param(ERAS[0], marks=pytest.mark.long), ERAS[1]])
def connected(request, workspace):
    """A client of either era; JSON-RPC in both, as over stdio."""

    @asynccontextmanager
    async def connect():
        mode = "legacy" if request.param == ERAS[0] else "auto"
        async with Client(InMemoryTransport(build_server(workspace)), mode=mode) as client:
            assert client.protocol_version == request.param
            yield client

    return connect()


@pytest.mark.slow
@pytest.mark.requirement("MCP-3", "MCP-5")
async def test_a_client_that_hears_progress_comes_to_a_decision_in_one_call(connected, brief, iris):
    async with connected as client:
        plain, hearing = Agent(client), Hearing(client)
        await plain.get("create_project", name="iris", intent="a test", goal=HIGH, config=iris)
        ended = await plain.get("advance", project="iris", wait_seconds=600)
        assert (ended["ended"], ended["next"]["arguments"]["wait_seconds"]) == ("wait", 50)
        assert ended["taken_as"] == ["wait_seconds 600 ended after 0.1: the client asks for no progress; call again"]
        answer = await hearing.get("advance", project="iris", wait_seconds=600)
    assert answer["ended"] not in {"wait", "failure", "refusal"}, answer
    assert "taken_as" not in answer
    values = [done for done, _, _ in hearing.heard]
    assert values == sorted(set(values)), "each is above the one before"
    assert any("smoke-iris" in message and "step" in message for _, _, message in hearing.heard), hearing.heard


@pytest.mark.slow
@pytest.mark.requirement("MCP-1", "MCP-3")
async def test_a_wait_that_its_client_cancels_leaves_the_run_to_its_end(connected, monkeypatch, iris):
    monkeypatch.setattr(bounded_wait, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(bounded_wait, "PLAIN_SECONDS", 600.0)  # else a slow start counts as a client that gave up
    async with connected as client:
        plain, hearing = Agent(client), Hearing(client)
        await plain.project(config={**iris, "training": {"epochs": 100}, "early_stopping": {"enabled": False}})
        order = {"project": "iris", "kind": "smoke", "max_steps": 300, "idempotency_key": "one"}
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: hearing.call("start_training", **order, wait_seconds=600))
            with anyio.fail_after(120):
                await hearing.hears.wait()
            group.cancel_scope.cancel()
        view = await hearing.ended("iris/smoke-1")
    assert (view["state"], view["run_id"]) == ("completed", "iris/smoke-1"), view
    lines = "\n".join(message for _, _, message in hearing.heard)
    assert "step 0 of 300" in lines or "of 300, loss " in lines, lines


@pytest.mark.long
@pytest.mark.slow
async def test_a_client_that_gives_up_twice_after_the_same_time_is_answered_sooner_and_one_cancel_says_nothing(
    in_memory, brief, iris
):
    async with in_memory(mode="legacy") as agent:
        hearing = Hearing(agent.client)
        forever = {"training": {"epochs": 10**6, "validate_every_n_epochs": 50}, "early_stopping": {"enabled": False}}
        await agent.project(config={**iris, **forever})
        order = {"project": "iris", "kind": "smoke", "max_steps": 10**9}
        started = await hearing.get("start_training", **order)
        assert started["next"]["arguments"]["wait_seconds"] == bounded_wait.OFFERED_SECONDS
        cancels = 0
        with anyio.fail_after(120):
            while True:  # an alert may end a wait before its client does, and a busy machine delay either
                with anyio.move_on_after(1.0) as scope:
                    view = await hearing.get("run_status", run_id="iris", wait_seconds=600)
                    if "taken_as" in view:
                        break
                cancels += scope.cancelled_caught
                if cancels == 1:
                    once = await hearing.get("run_status", run_id="iris")
                    assert once["next"]["arguments"]["wait_seconds"] == bounded_wait.OFFERED_SECONDS
        assert cancels > 1
        assert "the client gave up on longer ones" in view["taken_as"][0]
        assert view["next"]["arguments"]["wait_seconds"] < bounded_wait.OFFERED_SECONDS
        await agent.get("stop_training", project="iris")


async def test_what_is_heard_rises_over_the_parts_of_a_call_and_outlives_a_look_that_fails(brief):
    heard, looks = [], iter([OSError("gone"), *[Progress(one, None, "") for one in (7.0, 7.0, 9.0)]])

    class Client:
        async def report_progress(self, done, total, message):
            heard.append(done)

    def look():
        found = next(looks, Progress(0.5, None, ""))
        if isinstance(found, Exception):
            raise found
        return found

    bounded_wait._PRESENT.set(bounded_wait.Patience(0.0, 0.0, hears=True))
    for _ in range(2):
        await bounded_wait.waited(Client(), lambda _: time.sleep(1.5), look)
    assert len(heard) > 4
    assert heard == sorted(set(heard))
    assert heard[-1] > 9.0


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        ([0.5], ""),
        ([0.5, 0.5], "▁▁"),
        ([1.0, 2.0, 3.0], "▁▅█"),
        ([3.0, 1.0], "█▁"),
        ([1.0, math.nan, 2.0, math.inf], "▁ █ "),
    ],
)
def test_a_curve_is_a_line_of_bars(values, shown):
    assert sparkline(values) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(4.4, "4 s"), (100, "2 min"), (7200, "2.0 h")])
def test_a_time_is_in_its_larger_unit(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.slow
async def test_waits_leave_the_threads_to_other_calls(in_memory, iris, monkeypatch):
    async with in_memory(mode="legacy") as agent:
        forever = {"training": {"epochs": 10**6, "validate_every_n_epochs": 50}, "early_stopping": {"enabled": False}}
        await agent.project(config={**iris, **forever})
        await agent.get("start_training", project="iris", kind="smoke", max_steps=10**9)
        limiter = anyio.to_thread.current_default_thread_limiter()
        monkeypatch.setattr(limiter, "total_tokens", 2)
        waiting = [Hearing(agent.client) for _ in range(4)]
        async with anyio.create_task_group() as group:
            for one in waiting:
                group.start_soon(partial(one.call, "run_status", run_id="iris", wait_seconds=600, after_step=10**9))
            with anyio.fail_after(60):
                for one in waiting:
                    await one.hears.wait()
                assert (await agent.get("project_status"))["total"] == 1
            group.cancel_scope.cancel()
        await agent.get("stop_training", project="iris")


def test_looks_come_the_further_apart_the_longer_a_wait_has_lasted(monkeypatch):
    slept = []
    monkeypatch.setattr(wait.time, "sleep", slept.append)
    monkeypatch.setattr(wait.time, "monotonic", lambda: 1000.0)
    for began, deadline in ((1000.0, 2000.0), (980.0, 2000.0), (0.0, 2000.0), (0.0, 1000.5)):
        wait.pause(began, deadline, 0.2)
    assert slept == [0.2, 1.0, 2.0, 0.5]
