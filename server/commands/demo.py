"""`trainwright demo`: an agent's client takes a real project through all five phases, over stdio.

It follows the `next` call of each answer, as an agent would. Twice it tries what the gates forbid, and is refused.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from trainwright.server.commands.driving import Driver, Transcript, UnexpectedAnswerError, conclude, content, served

if TYPE_CHECKING:
    from mcp.types import CallToolResult

WANTED_TEST_ACCURACY = 0.97
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
    async with served(workspace, transcript) as client:
        agent = DemoAgent(client, transcript)
        try:
            project = await agent.run()
        except UnexpectedAnswerError as error:
            transcript.fact(f"The demonstration ends here: {error}", "bold red")
            return 1
    return _conclude(transcript, workspace, project, started)


class DemoAgent(Driver):
    """An agent with a search space of its own, who tries what is forbidden."""

    _project = ""

    async def run(self) -> str:
        """Drive a new project to its end and return its name."""
        self._project = await self._free_name()
        first = await self._plan(self._project)
        await self._try_what_is_forbidden(self._project)
        self._transcript.say("Then as the server says: a smoke run of a few steps gives the gate its evidence.")
        await self.follow(first)
        return self._project

    def chosen(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the proposed arguments; the search space is the one thing of our own."""
        return {"project": self._project, "search": SEARCH} if tool == "start_tuning" else arguments

    def thought(self, phase: str) -> str:
        """Return what the agent thinks when it enters a phase."""
        return THOUGHTS[phase]

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


def refused(result: CallToolResult) -> None:
    """Raise UnexpectedAnswerError when the server allowed what it must refuse."""
    if not result.is_error:
        raise UnexpectedAnswerError("the server allowed what a gate must refuse (see above).")


def _conclude(transcript: Transcript, workspace: Path, project: str, started: float) -> int:
    """Check the accuracy on the held-back rows, the ledger and all digests; return the exit status."""
    metrics = workspace / "projects" / project / "final_model" / "metrics.json"
    accuracy = json.loads(metrics.read_text())["test"]["metrics"]["accuracy"]
    said = f"Test accuracy {accuracy:.4f} (at least {WANTED_TEST_ACCURACY} is expected)"
    good = conclude(transcript, workspace, project, said, good=accuracy >= WANTED_TEST_ACCURACY, started=started)
    return 0 if good else 1
