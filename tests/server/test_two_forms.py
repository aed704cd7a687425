"""One answer, two equal forms: what the structured part holds stands in the text, and the other way round.

A project is taken through its phases by a real client, with every tool on the way.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any, NamedTuple

import anyio
import pytest
from mcp.client import Client
from mcp.types import CallToolResult, ImageContent, ResourceLink

from trainwright.server.app import build_server
from trainwright.server.surface import TOOLS
from trainwright.tools.hyperparameter_tuner import stop_study
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import study_named

pytestmark = pytest.mark.slow

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
IRIS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},  # most of a smoke run
    "optimizer": {"learning_rate": 0.02},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
SEARCH = {"trials": 2, "space": {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1, "log": True}}}
CONTENT_ONLY = {"read_document", "plot_metrics"}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class Answered(NamedTuple):
    """A call and its answer."""

    tool: str
    arguments: dict[str, Any]
    result: CallToolResult

    @property
    def text(self) -> str:
        """All text of the content."""
        return "\n".join(block.text for block in self.result.content if block.type == "text")


class Session:
    """A client that keeps what was answered."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers: list[Answered] = []
        self.resources: dict[str, Any] = {}

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed."""
        result = await self.client.call_tool(tool, arguments)
        answered = Answered(tool, arguments, result)
        assert not result.is_error, answered.text
        self.answers.append(answered)
        for block in result.content:
            if isinstance(block, ResourceLink):
                self.resources[str(block.uri)] = (await self.client.read_resource(block.uri)).contents[0]
        return result.structured_content or {}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The answers of a whole project, from its creation to its final model."""
    workspace = tmp_path_factory.mktemp("forms") / "workspace"
    workspace.mkdir()
    (workspace / "settings.yaml").write_text("outer_launcher: true\n")
    day = dt.datetime.now(tz=dt.UTC).date() - dt.timedelta(days=3)
    rows = [f"- [invented, CPU, {price}, {day}, nobody, {spot}]" for price, spot in ((0.5, "no"), (0.2, "yes"))]
    (workspace / "prices.yaml").write_text("\n".join(["rows:", *rows, ""]))
    return anyio.run(play, workspace)


async def play(workspace):
    async with Client(build_server(workspace)) as client:
        session = Session(client)
        await begin(session)
        await train(session)
        await search_a_little(session, workspace)
        await finish(session)
        return session


async def begin(session):
    """Nothing here trains: the second project's run waits for a launcher that never comes."""
    call = session.call
    await call("project_status")
    await call("read_document", path="configs/README.md")
    waiting = {**IRIS, "distributed": {"launcher": "outer", "processes": 2}}
    await call("create_project", name="theirs", intent="wait", goal=GOAL, config=waiting)
    await call("start_training", project="theirs", kind="smoke")
    await call("stop_training", project="theirs")
    await call("resume_training", project="theirs")
    await call("stop_training", project="theirs")
    await call("plan_training", intent="Tell three kinds of iris apart", data="iris")
    await call("create_project", name="iris", intent="Tell three kinds of iris apart", goal=GOAL, config=IRIS)
    await call("configure", project="iris", changes={"training.epochs": 12}, reason="two are few")
    await call("configure", project="iris", ask_owner={"limits": {"trials": 500}}, reason="a long search")
    await call("project_status")


async def train(session):
    call = session.call
    await call("start_training", project="iris", kind="smoke", wait_seconds=50)
    await call("run_status", detail="full")
    await call("list_checkpoints", run_id="iris/smoke-1", verify=True)
    await call("validate_data", project="iris", wait_seconds=50)
    await call("pass_gate", project="iris")
    await call("start_training", project="iris", kind="baseline")
    for _ in range(6):  # an alert ends a wait before the run has ended
        if (await call("run_status", run_id="iris", wait_seconds=50))["state"] == "completed":
            break
    await call("pass_gate", project="iris", detail="full")
    await call("diagnose_run", project="iris")
    await call("plot_metrics", run_ids=["iris/baseline-1"])
    await call("compare_runs", run_ids=["iris/smoke-1", "iris/baseline-1"])
    await call("open_dashboard")
    await call("estimate_cost", project="iris", trials=4, requests_per_month=1e6, interruptions_per_day=2.0)
    await call("pass_gate", project="iris")


async def search_a_little(session, workspace):
    await session.call("start_tuning", project="iris", search=SEARCH)
    await session.call("tuning_status")
    opened = Workspace.open(workspace)
    with opened.snapshot() as reading:
        study = study_named(reading, "iris/study-1")
    stop_study(opened, study)
    opened.close()
    await session.call("tuning_status", study_id="iris/study-1", detail="full")


async def finish(session):
    call = session.call
    await call("pass_gate", project="iris")
    await call("verify_reproducibility", project="iris", run_id="iris/baseline-1", wait_seconds=50)
    for _ in range(8):
        status = await call("project_status", project="iris")
        if "next" not in status or status["next"]["tool"] == "export_model":
            break
        await call(status["next"]["tool"], **status["next"]["arguments"])
    await call("export_model", project="iris", wait_seconds=50)
    for _ in range(6):
        if (await call("advance", project="iris"))["ended"] == "finished":
            break
    await call("prune_checkpoints", project="iris")
    await call("project_status", project="iris", detail="full")
    await call("models", project="iris")
    await call("promote_model", project="iris", version="latest", reason="the first")
    await call("models", project="iris", compare=["v1", "production"])
    await call("project_status")


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def even(text):
    """The text without what a table or a line break changes about it."""
    return " ".join(text.replace("|", "/").replace('\\"', '"').split())


@pytest.mark.requirement("MCP-5")
def test_every_tool_has_been_asked(session):
    assert {answered.tool for answered in session.answers} == {tool.name for tool in TOOLS}
    assert session.answers[-1].result.structured_content["projects"][0]["project"] == "iris"


@pytest.mark.requirement("MCP-5", "MCP-3")
def test_what_is_structured_stands_in_the_text(session):
    for answered in session.answers:
        text = even(answered.text)
        for leaf in leaves(answered.result.structured_content or {}):
            shown = leaf if isinstance(leaf, str) else json.dumps(leaf)
            if not isinstance(leaf, bool):
                assert even(shown) in text, f"{answered.tool}: {shown!r} is not in\n{answered.text}"


@pytest.mark.requirement("MCP-5")
def test_what_stands_in_the_text_is_structured(session):
    for answered in session.answers:
        if answered.tool not in CONTENT_ONLY:
            facts = json.dumps(answered.result.structured_content, ensure_ascii=False)
            lists = [value for value in answered.result.structured_content.values() if isinstance(value, list)]
            known = {*NUMBER.findall(facts), *(str(len(value)) for value in lists)}  # a text may count a list
            assert set(NUMBER.findall(answered.text)) <= known, f"{answered.tool}\n{answered.text}\n{facts}"


@pytest.mark.requirement("MCP-5")
def test_the_next_call_is_the_last_line_of_the_text(session):
    for answered in session.answers:
        following = (answered.result.structured_content or {}).get("next")
        if following is not None:
            assert answered.text.splitlines()[-1].startswith(f"Next: {following['tool']}("), answered.text


@pytest.mark.requirement("MCP-5")
def test_the_text_is_shorter_than_the_json(session):
    both = [answered for answered in session.answers if answered.tool not in CONTENT_ONLY]
    written = sum(len(answered.text) for answered in both)
    assert written < sum(len(json.dumps(answered.result.structured_content)) for answered in both)


@pytest.mark.requirement("MCP-5")
def test_documents_and_pictures_are_content_that_no_structured_part_hides(session):
    for answered in session.answers:
        assert (answered.result.structured_content is None) == (answered.tool in CONTENT_ONLY), answered.tool
    (plotted,) = [answered for answered in session.answers if answered.tool == "plot_metrics"]
    assert any(isinstance(block, ImageContent) for block in plotted.result.content)
    assert re.search(r"path: /.*\.png", plotted.text)
    (document,) = [answered for answered in session.answers if answered.tool == "read_document"]
    assert "# " in document.text


@pytest.mark.requirement("MCP-1", "MCP-5")
def test_reports_and_pictures_are_resources_that_answers_link_to(session):
    names = {uri.partition("projects/iris/")[2] for uri in session.resources}
    assert {"reports/diagnostic_report.md", "pictures/plots/learning_curves.png"} <= names
    assert {"reports/baseline_results.md", "reports/final_model/README.md"} <= names
    for uri, content in session.resources.items():
        assert content.mime_type == ("image/png" if uri.endswith(".png") else "text/markdown")
        assert (content.blob if uri.endswith(".png") else content.text).strip()


@pytest.mark.requirement("MCP-5")
def test_a_list_of_projects_says_what_each_is_for(session):
    listed = session.answers[-1].text
    for fact in ("iris", "Tell three kinds of iris apart", "0.5", "theirs", "finished"):
        assert fact in listed


@pytest.mark.requirement("MCP-5")
def test_ids_are_handles_and_answers_are_small(session):
    for answered in session.answers:
        assert not re.search(r"(?<![\w/.-])\w+-iris-\d{8}-\d{6}-\w{6}(?![\w/.-])", answered.text), answered.text
        if answered.tool not in CONTENT_ONLY:
            assert len(json.dumps(answered.result.structured_content)) / 4 < 2000
