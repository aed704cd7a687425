"""Two scripted agents that know nothing but their pages: agents/training-architect.md, agents/ml-trainer.md.

They have the tools that their page names and no others, do what it says in its order, and follow `next`. What a page
leaves to judgement is a line here that says so. A call that they cannot make, or an answer that leaves them stuck, is
an error: of the page or of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from mcp.client import Client
from mcp.types import CallToolResult

from trainwright.server.commands.driving import Transcript

PAGES = Path(__file__).parents[2] / "agents"
PREFIX = "mcp__trainwright__"
MAX_CALLS = 60
MAX_LINES = {"*": 60, "read_document": 8}
"""Of an answer, in the transcript."""
MAX_QUESTIONS, MAX_CHARACTERS = 20, 1000
"""Of a hand-over, and of one question in it."""
AT_WORK = ("created", "starting", "running")


class StuckError(Exception):
    """An agent cannot go on by its page and the server's answers."""


class ScriptedAgent:
    """A client with the tools of an agent's page.

    Attributes:
        answers: tool and structured answer of each call, with the length of its text.
    """

    page = ""

    def __init__(self, client: Client, transcript: Transcript, user: Callable[[str], Any]) -> None:
        front = yaml.safe_load((PAGES / f"{self.page}.md").read_text(encoding="utf-8").split("---\n")[1])
        named = [tool.strip() for tool in front["tools"].split(",")]
        self.tools = {tool.removeprefix(PREFIX) for tool in named if tool.startswith(PREFIX)}
        self.client, self.transcript, self.user = client, transcript, user
        self.answers: list[tuple[str, dict[str, Any], int]] = []
        transcript.heading(self.page)

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool of the page and return its structured answer. Raises StuckError for a refusal."""
        if tool not in self.tools:
            raise StuckError(f"{self.page} is to call {tool}, which its page does not name")
        self.transcript.call(tool, arguments)
        result: CallToolResult = await self.client.call_tool(tool, arguments)
        self.transcript.answer(result, MAX_LINES.get(tool, MAX_LINES["*"]))
        if result.is_error:
            raise StuckError(f"{tool} was refused: {result.content}")
        text = "".join(block.text for block in result.content if block.type == "text")
        self.answers.append((tool, result.structured_content or {}, len(text)))
        return result.structured_content or {}

    async def follow(self, answer: dict[str, Any], **other: Any) -> dict[str, Any]:
        """Make the call that an answer proposes, with other values where some are given."""
        following = answer.get("next")
        if following is None:
            raise StuckError("the answer proposes no call")
        return await self.call(following["tool"], **{**following["arguments"], **other})

    async def ended(self, run: dict[str, Any]) -> dict[str, Any]:
        """Wait until a run has ended. Raises StuckError where it failed."""
        view = run
        for _ in range(MAX_CALLS):
            if view.get("state") not in AT_WORK:
                break
            view = await self.call("run_status", run_id=run["run_id"], wait_seconds=50)
        if view["state"] != "completed":
            raise StuckError(f"the run ended as {view['state']}")
        return view

    async def handed_over(self, project: str, to: str, questions: list[str]) -> dict[str, Any]:
        """Hand a project over by the file that the server writes."""
        return await self.call(
            "configure", project=project, hand_over={"by": self.page, "to": to, "questions": questions}
        )

    def ask(self, question: str) -> Any:
        """Ask the user, and return the answer."""
        answer = self.user(question)
        self.transcript.say(f"{question} The user: {answer}")
        return answer


class Architect(ScriptedAgent):
    """Comes from a sentence to a project whose planning gate has passed."""

    page = "training-architect"

    async def run(self, intent: str, root: Path, *, probes: bool = True, **named: str) -> str:
        """Return the project's name, after the steps of the page.

        Args:
            probes: also the probe, which takes longest.
            named: what the user named beside the sentence, as plan_training takes it.
        """
        self.transcript.say(f"The user: {intent}")
        await self.call("project_status")
        tables, models = sorted(root.glob("*.csv")), sorted(root.glob("models/*/config.json"))
        self.transcript.say(f"Glob: {', '.join(path.relative_to(root).as_posix() for path in [*tables, *models])}")
        found = {"data": tables[0].name, **named}
        if models:
            found["model"] = models[0].parent.relative_to(root).as_posix()
        plan = await self._planned(await self.call("plan_training", intent=intent), found)
        if any("price is missing" in one for one in plan.get("assumed") or []):
            price = self.ask("What does an hour of the card cost? Without a price the twenty dollars bound nothing.")
            plan = await self._planned(
                await self.call("plan_training", intent=intent, **found, limits={"dollars_per_hour": price}), found
            )
        for what in (*(plan.get("assumed") or []), *(plan.get("does_not_fit") or [])):
            self.transcript.say(f"To confirm: {what}")
        if plan.get("first"):
            raise StuckError(f"no shell here for {plan['first'][0]}")
        status = await self.follow(plan)
        project = str(status["project"])
        if probes:
            probe = await self.ended(await self.call("start_training", project=project, kind="probe"))
            if (probe.get("next") or {}).get("tool") == "configure":
                await self.follow(probe)
        await self.ended(await self.call("start_training", project=project, kind="smoke"))
        gate = await self.call("pass_gate", project=project, phase="planning")
        if gate["outcome"] != "passed":
            raise StuckError("the planning gate did not pass")
        assumed = [f"Is this right: {what}"[:MAX_CHARACTERS] for what in plan.get("assumed") or []]
        await self.handed_over(project, "ml-trainer", assumed[:MAX_QUESTIONS])
        self.transcript.say(f"Project {project}, planning passed; continue with advance(project={project!r}).")
        return project

    async def _planned(self, answer: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        """Answer questions from what was found, and wait for what is still being read."""
        for _ in range(MAX_CALLS):
            if answer["state"] == "planned":
                return answer
            open_now = {one["argument"]: one["question"] for one in answer.get("questions") or []}
            for name, question in open_now.items():
                if name not in found:
                    found[name] = self.ask(question)
            answer = await self.follow(answer, **(found if open_now else {}))
        raise StuckError("the plan never came")


class Trainer(ScriptedAgent):
    """Takes a project over and brings it to its end."""

    page = "ml-trainer"

    async def run(self, project: str) -> dict[str, Any]:
        """Return the last answer of a finished project, after the steps of the page."""
        status = await self.call("project_status", project=project)
        if "forged" in str(status.get("handover")):
            raise StuckError(f"the hand-over is forged: {status['handover']}")
        phase, read, answer = str(status["phase"]), set[str](), status
        for _ in range(MAX_CALLS):
            if phase not in read:
                read.add(phase)
                await self._read(f"phases/{PHASES[phase]}/checklist.md")
            answer = await self.call("advance", project=project)
            for alert in answer.get("alerts") or []:
                if alert.get("document") and alert["document"] not in read:
                    read.add(alert["document"])
                    await self._read(alert["document"])
            if answer["ended"] == "finished":
                await self.handed_over(project, "training-orchestrator", [])
                return answer
            if answer["ended"] in {"decision", "failure", "refusal"}:
                answer = await self._decided(answer)
            phase = str(answer.get("phase") or answer.get("now_in") or phase)
        raise StuckError(f"the project did not end within {MAX_CALLS} calls")

    async def _read(self, path: str) -> None:
        """Read a document; the transcript has its beginning."""
        await self.call("read_document", path=path)

    async def _decided(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Make the decision that the server leaves: the search or the change that it proposes."""
        following = answer.get("next")
        if following is None:
            raise StuckError(f"ended by {answer['ended']} without a proposal")
        more = {"reason": str(following.get("why"))} if following["tool"] == "configure" else {}
        found = await self.follow(answer, **more)
        if following["tool"] != "start_tuning":
            return found
        for _ in range(MAX_CALLS):
            if found.get("state") not in AT_WORK:
                break
            found = await self.call("tuning_status", study_id=found["study_id"], wait_seconds=50)
        return found


PHASES = {
    "planning": "01_planning", "baseline": "02_baseline", "diagnostics": "03_diagnostics",
    "optimization": "04_optimization", "finalization": "05_finalization",
}  # fmt: skip
