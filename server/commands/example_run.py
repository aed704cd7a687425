"""`trainwright example NAME --run`: prepares a copy's data and takes its project through all gates, as an agent would.

A project that exists already, because an earlier call was interrupted, goes on where it is.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio

from trainwright.server.commands.driving import Driver, Transcript, UnexpectedAnswerError, conclude, content, served
from trainwright.server.commands.example import copied
from trainwright.server.markdown import number
from trainwright.tools.examples import Example, outcome_of, require_packages
from trainwright.tools.examples.catalogue import config_of
from trainwright.tools.examples.outcome import WORKSPACE
from trainwright.trainer.base.errors import DataError

PREPARE = "prepare.py"
LAST_CHARACTERS = 600
"""Of what a failed script wrote: its error stands at the end."""


def run_example(name: str, into: Path) -> int:
    """Run an example in a folder, copied there where it is not, and return the exit status: 0 when it is released.

    Raises NotFoundError, ConflictError, StorageError, DataError.
    """
    example = copied(name, into)
    require_packages(example)
    if not (into / WORKSPACE).exists():
        prepare(into)
    return anyio.run(_play, example, into)


def prepare(folder: Path) -> None:
    """Make a copy's data by its script, in a process of its own. Raises DataError with what the script said."""
    done = subprocess.run(
        [sys.executable, PREPARE], cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-LAST_CHARACTERS:]
        raise DataError(
            f"{PREPARE} in {folder} ended with status {done.returncode}: {said}",
            remedy=f"cd {folder} && python {PREPARE} shows all of it; correct it and make the same call again.",
        )


class ExampleAgent(Driver):
    """An agent that has an example's card and configuration, and follows `next`."""

    async def run(self, example: Example, folder: Path) -> None:
        """Drive the project from where it is to its end. Raises UnexpectedAnswerError."""
        self._transcript.heading(f"{example.name}: {example.summary}")
        answer = content(await self.call("project_status"))
        if any(project["project"] == example.name for project in answer["projects"]):
            self._transcript.say("The project exists: on from where it is.")
            answer = content(await self.call("project_status", project=example.name))
        else:
            answer = content(await self.call("create_project", **creation(example, folder)))
        await self.follow(answer)


def creation(example: Example, folder: Path) -> dict[str, Any]:
    """Return the arguments with which an agent creates the project of a copy."""
    return {
        "name": example.name,
        "intent": example.intent,
        "goal": example.goal.model_dump(),
        "config": config_of(folder),
    }


async def _play(example: Example, folder: Path) -> int:
    transcript, started, workspace = Transcript(), time.monotonic(), folder / WORKSPACE
    async with served(workspace, transcript) as client:
        try:
            await ExampleAgent(client, transcript).run(example, folder)
        except UnexpectedAnswerError as error:
            transcript.fact(f"The example ends here: {error}", "bold red")
            return 1
    outcome, expected = outcome_of(example, folder), example.expected
    transcript.fact(outcome.said)
    said = f"Held-back {expected.metric} {number(outcome.value)} of {outcome.rows} rows"
    said += f" ({'within' if outcome.within else 'NOT within'} {number(expected.low)} to {number(expected.high)}"
    said += f"; {example.naive.what}: {number(example.naive.value)})"
    good = conclude(transcript, workspace, example.name, said, good=outcome.released, started=started)
    return 0 if good else 1
