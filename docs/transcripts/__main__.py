"""Transcripts of scripted agents, played anew: `python docs/transcripts` (a few minutes on a CPU).

support_tickets.md  from a sentence to a finished project, over stdio, with generated tickets and a tiny model
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import anyio
from agents import MAX_LINES, Architect, StuckError, Trainer
from mcp import StdioServerParameters
from mcp.client import Client
from tickets import write_model, write_tickets

from trainwright.server.commands.driving import Transcript

HERE = Path(__file__).parent
INTENT = "fine-tune a small model to sort support tickets, I have one 24 GB card and twenty dollars"
DOLLARS_PER_HOUR = 0.5
WORKSPACE = "workspace"
HEAD = f"""\
# From a sentence to a finished project

Written by `python docs/transcripts`, which plays two scripted agents against a real server over stdio:
training-architect, then ml-trainer. They know their pages ([agents](../../agents/training-architect.md)) and nothing
else. The tickets are generated, the model is a tiny encoder with random weights, and the machine that played it has no
GPU: the plan is for the card of the sentence, and the figures of the runs are this machine's. `#` is what an agent
says, `->` a call, `<-` its answer, of which at most {MAX_LINES["*"]} lines are shown
({MAX_LINES["read_document"]} of a document); the number of the others is said.

```text
"""


def main() -> int:
    """Play, and write the transcript. Returns the exit status: 1 where an agent got stuck."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        prepare(root)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(_Both(printed)):
                anyio.run(played, root)
        except StuckError as error:
            sys.stderr.write(f"stuck: {error}\n")
            return 1
        text = printed.getvalue().replace(f"{root}/", "").replace(str(root), ".")
    (HERE / "support_tickets.md").write_text(f"{HEAD}{text.strip()}\n```\n", encoding="utf-8")
    return 0


def prepare(root: Path) -> None:
    """Write the tickets and the model that the user has."""
    write_model(root / "models" / "tiny", write_tickets(root / "tickets.csv", 480))


async def played(root: Path) -> dict[str, object]:
    """Play both agents in a folder over stdio, and return the last answer."""
    command = ["-P", "-m", "trainwright.server.cli", "serve", "--workspace", str(root / WORKSPACE)]
    async with Client(StdioServerParameters(command=sys.executable, args=command, cwd=str(root))) as client:
        transcript = Transcript()
        project = await Architect(client, transcript, asked).run(INTENT, root)
        return await Trainer(client, transcript, asked).run(project)


def asked(question: str) -> float:
    """Return what the user answers to the one question that the sentence leaves open: an hour's price."""
    if "cost" not in question:
        raise StuckError(f"the user has no answer to: {question}")
    return DOLLARS_PER_HOUR


def form_of(transcript: str) -> list[tuple[str, bool]]:
    """Return the calls of a transcript, each with whether it was refused; repeated ones, as waits are, count once.

    What is read is left out: of which phases a checklist is read depends on where a wait ended.
    """
    found: list[tuple[str, bool]] = []
    for line in transcript.splitlines():
        if (call := re.match(r"-> (?!read_document)(\w+)\(", line)) is not None:
            found.append((call[1], False))
        elif line.startswith("<- REFUSED ") and found:
            found[-1] = found[-1][0], True
    return [call for number, call in enumerate(found) if number == 0 or call != found[number - 1]]


class _Both(io.TextIOBase):
    """Writes to the terminal's place and into a text."""

    def __init__(self, text: io.StringIO) -> None:
        self.text, self.shown = text, sys.stdout

    def write(self, line: str) -> int:
        self.shown.write(line)
        self.shown.flush()
        return self.text.write(line)


if __name__ == "__main__":
    sys.exit(main())
