"""`trainwright demo`: an agent's client takes a real project through all five phases, over stdio.

The driver is not a mock: it starts the server as a subprocess, speaks MCP through the official client, and follows the
`next` call of each answer, as an agent would. Twice it tries what the gates forbid, and is refused.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolResult

from trainwright.server.commands.transcript import Transcript

WANTED_TEST_ACCURACY = 0.97
MOST_CALLS = 80
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.965}
CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [512, 256]}},
    "data": {"use": "digits"},
    "optimizer": {"learning_rate": 0.0001},
    "training": {"epochs": 12},
}
SEARCH = {
    "trials": 4,
    "space": {
        "optimizer.learning_rate": {"type": "float", "low": 0.0003, "high": 0.01, "log": True},
        "loader.batch_size": {"type": "categorical", "choices": [16, 32, 64]},
    },
}
THOUGHTS = {
    "baseline": "Planning is settled. One complete run with a cautious learning rate, as a baseline.",
    "diagnostics": "The baseline is done. What do its curves show?",
    "optimization": "The goal is missed: search the two settings that matter most here.",
    "finalization": "The improvement held on repeated seeds. Train the final model, prove it, export it.",
}


def run_demo(workspace: Path) -> int:
    """Play the demonstration in the workspace and return the exit status: 0 when the model is as good as promised."""
    return anyio.run(_play, workspace)


async def _play(workspace: Path) -> int:
    transcript = Transcript()
    started = time.monotonic()
    command = ["-P", "-m", "trainwright.server.cli", "serve", "--workspace", str(workspace)]
    transcript.fact(f"$ trainwright serve --workspace {workspace}", "dim")
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
        agent = DemoAgent(client, transcript)
        try:
            project = await agent.run()
        except UnexpectedAnswerError as error:
            transcript.fact(f"The demonstration ends here: {error}", "bold red")
            return 1
    return _conclude(transcript, workspace, project, time.monotonic() - started)


class UnexpectedAnswerError(Exception):
    """The server answered otherwise than the demonstration promises."""


class DemoAgent:
    """Calls tools, prints both sides, and follows what the answers propose."""

    def __init__(self, client: Client, transcript: Transcript) -> None:
        self._client = client
        self._transcript = transcript

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool and print call and answer."""
        self._transcript.call(tool, arguments)
        result = await self._client.call_tool(tool, arguments, progress_callback=self._transcript.progress)
        self._transcript.answer(result)
        return result

    async def run(self) -> str:
        """Drive a new project to its end and return its name."""
        project = await self._free_name()
        first = await self._plan(project)
        await self._try_what_is_forbidden(project)
        self._transcript.say("Then as the server says: a smoke run of a few steps gives the gate its evidence.")
        await self._follow(first, project)
        return project

    async def _free_name(self) -> str:
        self._transcript.heading("a new session")
        answer = content(await self.call("project_status"))
        taken = {project["project"] for project in answer["projects"]}
        names = ["digits", *(f"digits-{number}" for number in range(2, len(taken) + 2))]
        return next(name for name in names if name not in taken)

    async def _plan(self, project: str) -> dict[str, Any]:
        self._transcript.heading("planning")
        self._transcript.say("1,797 real images of handwritten digits; good enough is 96.5 % on validation.")
        answer = await self.call(
            "create_project", name=project, intent="Read handwritten digits", goal=GOAL, config=CONFIG
        )
        return content(answer)

    async def _try_what_is_forbidden(self, project: str) -> None:
        self._transcript.say("Could I skip planning and train at once?")
        refused(await self.call("start_training", project=project, kind="baseline"))
        self._transcript.say("Could I just declare planning done?")
        refused(await self.call("pass_gate", project=project, phase="planning"))
        self._transcript.say("And with a configuration key that does not exist?")
        refused(await self.call("configure", project=project, changes={"optimizer.learning_rat": 0.1}))

    async def _follow(self, answer: dict[str, Any], project: str) -> None:
        """Follow the proposed calls until there is none; the search space is the one thing of our own."""
        earlier = None
        for _ in range(MOST_CALLS):
            following = answer.get("next")
            if following is None:
                return
            if following == earlier and following["tool"] == "pass_gate":
                raise UnexpectedAnswerError(
                    "a gate that has passed went stale at once; was something installed just now?"
                )
            earlier = following
            tool, arguments = following["tool"], dict(following["arguments"])
            if tool == "start_tuning":
                arguments = {"project": project, "search": SEARCH}
            answer = content(await self.call(tool, **arguments))
            if tool == "pass_gate" and answer["now_in"] in THOUGHTS:
                self._transcript.heading(answer["now_in"])
                self._transcript.say(THOUGHTS[answer["now_in"]])
        raise UnexpectedAnswerError(f"the project did not end within {MOST_CALLS} calls.")


def content(result: CallToolResult) -> dict[str, Any]:
    """Return an answer's structured content. Raises UnexpectedAnswerError when the call was refused."""
    if result.is_error or result.structured_content is None:
        raise UnexpectedAnswerError("the server refused a call that it relies on (see above).")
    answer: dict[str, Any] = result.structured_content
    return answer


def refused(result: CallToolResult) -> None:
    """Raise UnexpectedAnswerError when the server allowed what it must refuse."""
    if not result.is_error:
        raise UnexpectedAnswerError("the server allowed what a gate must refuse (see above).")


def _conclude(transcript: Transcript, workspace: Path, project: str, seconds: float) -> int:
    """Check the ledger and all digests, and print what is left in the workspace."""
    from trainwright.tools.verification import verify_workspace

    folder = workspace / "projects" / project
    accuracy = json.loads((folder / "final_model" / "metrics.json").read_text())["test"]["metrics"]["accuracy"]
    report = verify_workspace(workspace)
    transcript.heading("what is left")
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] in {"final_model", "plots"} | {p.name for p in folder.glob("*.*")}:
            transcript.fact(f"   {relative}", "dim")
    transcript.fact(f"   in {folder}", "dim")
    good = accuracy >= WANTED_TEST_ACCURACY and not report.problems
    transcript.fact(
        f"Test accuracy {accuracy:.4f} (at least {WANTED_TEST_ACCURACY} is expected); ledger and digests: "
        f"{len(report.problems)} problems; {seconds:.0f} s.",
        "bold green" if good else "bold red",
    )
    for problem in report.problems:
        transcript.fact(f"   {problem}", "red")
    return 0 if good else 1
