"""Alerts that reach an agent unasked: they end its wait, or stand in the next answer, whichever process found them."""

import json

import anyio
import pytest
from mcp.types import EmptyResult, SubscribeRequest, UnsubscribeRequest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DIAG-9", "MON-1")]

DIVERGING = """
from torch import nn


class Net(nn.Module):
    \"\"\"Learns for a while; then its outputs, and with them its loss and gradients, grow, and stay finite.\"\"\"

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += self.training
        return self.layer(x) * (1.0 if self.calls < {steps} else 3000.0)
"""
LONG = {"epochs": 10**6, "validate_every_n_epochs": 50, "clip_norm": None}
FOUND = "exploding_gradients"
TELL = {"on_critical": "tell"}
"""What is reported here is to go on: stops for alerts are tested by themselves."""


@pytest.fixture
def diverging(workspace, iris):
    """A configuration that diverges softly after some steps, and goes on until it is stopped."""

    def make(steps):
        code = workspace.parent / "mine"
        code.mkdir(exist_ok=True)
        (code / "model.py").write_text(DIVERGING.format(steps=steps))
        own = {"model": {"use": "model.py:Net"}, "code_root": "mine", "training": LONG, "monitoring": TELL}
        return {**iris, **own, "early_stopping": {"enabled": False}}

    return make


async def begun(agent, config, project="iris"):
    """Start a run that goes on until it is stopped."""
    await agent.project(project, config)
    view = await agent.get("start_training", project=project, kind="smoke", max_steps=10**9)
    return view["run_id"]


async def stopped(agent, run_id, project="iris"):
    """Stop the run, however it stands."""
    for _ in range(60):
        if (await agent.get("run_status", run_id=run_id))["state"] not in {"created", "starting", "running"}:
            return
        await agent.call("stop_training", project=project, run_id=run_id)
        await anyio.sleep(0.5)
    raise AssertionError(f"{run_id} could not be stopped")


@pytest.mark.long
async def test_a_wait_ends_with_an_alert_that_no_rule_of_the_worker_found(warm_stdio, diverging):
    async with warm_stdio() as agent:
        run_id = await begun(agent, diverging(steps=200))
        for _ in range(6):
            view = await agent.get("run_status", run_id=run_id, wait_seconds=50)
            if FOUND in {alert["id"] for alert in view["alerts"]}:
                break
        assert FOUND in {alert["id"] for alert in view["alerts"]}
        losses = [float(value) for name, value in view["metrics"].items() if name.endswith("loss")]
        assert max(losses) < float("inf"), "it diverges, and stays finite"
        assert len(json.dumps(view)) / 4 < 2000
        assert FOUND not in {one["id"] for one in view.get("news", [])}, "it is shown already"
        await stopped(agent, run_id)


async def test_an_alert_that_arose_while_nobody_asked_stands_in_the_next_answer_once(warm_stdio, diverging, workspace):
    async with warm_stdio() as agent:
        run_id = await begun(agent, diverging(steps=50))
        await until_raised(workspace, FOUND)
        results = [await agent.call("project_status") for _ in range(4)]  # each carries three at most
        carried = [(result, one) for result in results for one in result.structured_content.get("news", [])]
        ((result, news),) = [(result, one) for result, one in carried if one["id"] == FOUND]
        assert (news["run_id"], news["document"]) == ("iris/smoke-1", f"diagnostics/{FOUND}.md")
        assert news["state"] == "new"
        told = "\n".join(block.text for block in result.content if block.type == "text")
        assert news["message"] in told
        assert told.splitlines()[-1].startswith("Next: ") or "next" not in result.structured_content
        await stopped(agent, run_id)


@pytest.mark.long
async def test_an_answer_about_another_project_leaves_them_to_those_that_it_concerns(
    warm_stdio, diverging, workspace, iris, text
):
    async with warm_stdio() as agent:
        await agent.project("other", iris)
        run_id = await begun(agent, diverging(steps=50))
        await until_raised(workspace, FOUND)
        assert "news" not in await agent.get("project_status", project="other")
        assert "news" not in await agent.get("configure", project="other", changes={"training.epochs": 3})
        documents = [await agent.read("read_document", path="configs/README.md") for _ in range(4)]
        told = [FOUND in document.partition("# ")[0] for document in documents]
        assert told.count(True) == 1, "an answer about no project carries it, once, and a document in its text"
        await stopped(agent, run_id)


async def until_raised(workspace, diagnostic):
    """Wait until the workspace knows of an alert, without asking the server anything."""
    from sqlalchemy import select

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import RaisedAlert

    opened = Workspace.open(workspace)
    try:
        for _ in range(600):
            with opened.snapshot() as session:
                if session.scalar(select(RaisedAlert.run).where(RaisedAlert.id == diagnostic)) is not None:
                    return
            await anyio.sleep(0.2)
    finally:
        opened.close()
    raise AssertionError(f"nobody has raised {diagnostic}")


@pytest.mark.long
@pytest.mark.requirement("MCP-1")
async def test_who_listens_to_a_run_or_a_project_hears_of_its_alerts(warm_stdio, diverging):
    async with warm_stdio(mode="2026-07-28") as agent:
        run_id = await begun(agent, diverging(steps=50))
        handle, project = "trainwright://runs/iris/smoke-1/status", "trainwright://projects/iris/status"
        async with agent.client.listen(resource_subscriptions=[handle, project]) as heard:
            uris = set()
            with anyio.fail_after(200):
                async for event in heard:
                    uris.add(event.uri)
                    told = json.loads((await agent.client.read_resource(handle)).contents[0].text)
                    if FOUND in {alert["id"] for alert in told["alerts"]}:
                        break
        status = json.loads((await agent.client.read_resource(project)).contents[0].text)
        assert FOUND in {alert["id"] for alert in status["alerts"]}
        assert uris & {handle, project}
        await stopped(agent, run_id)


@pytest.mark.long
@pytest.mark.requirement("MCP-1")
async def test_subscribers_of_the_older_protocols_are_notified_until_they_unsubscribe(warm_stdio, diverging):
    heard = []

    async def handler(message):
        if getattr(message, "method", "") == "notifications/resources/updated":
            heard.append(str(message.params.uri))

    async with warm_stdio(mode="legacy", message_handler=handler) as agent:
        run_id = await begun(agent, diverging(steps=10**9))
        uri, other = "trainwright://runs/iris/smoke-1/status", "trainwright://projects/iris/status"
        for one in (uri, other):
            await agent.client.session.send_request(SubscribeRequest(params={"uri": one}), EmptyResult)
        with anyio.fail_after(200):
            while not {uri, other} <= set(heard):
                await anyio.sleep(0.2)
        await agent.client.session.send_request(UnsubscribeRequest(params={"uri": other}), EmptyResult)
        heard.clear()
        with anyio.fail_after(100):
            while uri not in heard:  # what was under way when it unsubscribed has come before this
                await anyio.sleep(0.2)
        heard.clear()
        await stopped(agent, run_id)
        with anyio.fail_after(60):
            while uri not in heard:
                await anyio.sleep(0.2)
        assert other not in heard
