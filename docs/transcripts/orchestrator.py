"""A third scripted agent, by agents/training-orchestrator.md: it starts the two others and checks what they hand over.

It knows its page and the server's answers. What a page leaves to judgement is a line here that says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from agents import MAX_CALLS, Architect, ScriptedAgent, StuckError, Trainer
from blake3 import blake3

ME, ARCHITECT, TRAINER, DEPLOYER = (
    "training-orchestrator", "training-architect", "ml-trainer", "deployment-specialist",
)  # fmt: skip


class Orchestrator(ScriptedAgent):
    """Leads a project from the request to its hand-over to the deployment specialist."""

    page = ME

    async def run(self, intent: str, root: Path, **named: str) -> dict[str, Any]:
        """Return the last hand-over, after the steps of the page; `named` as Architect.run takes it."""
        self.transcript.say(f"The user: {intent}")
        if (await self.call("project_status")).get("projects"):
            raise StuckError("the workspace has projects, and the sentence names none")
        project = await Architect(self.client, self.transcript, self.user).run(intent, root, probes=False, **named)
        self.transcript.heading(self.page)
        for _ in range(MAX_CALLS):
            status = await self.call("project_status", project=project)
            handed = self.received(status)
            if status["finished"]:
                return await self._passed_on(project, DEPLOYER, ["Use it as its card says."])
            notes = self.answers_to(handed)
            if notes or handed["words"]["to"] != TRAINER:
                await self._passed_on(project, TRAINER, notes)
            await Trainer(self.client, self.transcript, self.user).run(project)
            self.transcript.heading(self.page)
        raise StuckError("the project never finished")

    def received(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the file that came back. Raises StuckError where it is not one that the server wrote and that fits."""
        place, _, worth = str(status.get("handover") or "").rpartition(": ")
        if worth != "fits":
            raise StuckError(f"the hand-over is not to be passed on: {status.get('handover')}")
        handed: dict[str, Any] = yaml.safe_load(Path(place.rpartition(", ")[0]).read_text(encoding="utf-8"))
        self.transcript.say(f"Read: {handed['words']['by']} asks {handed['words']['questions']}")
        return handed

    def answers_to(self, handed: dict[str, Any]) -> list[str]:
        """Return the user's answers to the questions of a hand-over, as notes."""
        return [f"{question} {self.ask(question)}" for question in handed["words"]["questions"]]

    async def _passed_on(self, project: str, to: str, notes: list[str]) -> dict[str, Any]:
        return await self.call("configure", project=project, hand_over={"by": ME, "to": to, "notes": notes})


def deploy(path: Path) -> list[str]:
    """Be a deployment specialist, who has the file and the folder and no tools; returns the files that differ."""
    handed = yaml.safe_load(path.read_text(encoding="utf-8"))
    files: dict[str, str] = handed["facts"]["files"]
    if not handed["standing"]["finished"] or "final_model/model.safetensors" not in files:
        raise StuckError("there is nothing to deploy")
    digests = {name: f"blake3:{blake3((path.parent / name).read_bytes()).hexdigest()}" for name in files}
    return [name for name, digest in digests.items() if digest != files[name]]
