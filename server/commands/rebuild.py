"""`trainwright rebuild`: a lost database made again from the projects' ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal
from trainwright.server.format import counted
from trainwright.tools.verification.rebuilding import rebuild_workspace

if TYPE_CHECKING:
    from pathlib import Path


def show_rebuilt(path: Path) -> bool:
    """Rebuild the workspace's database and print how it went; return whether every ledger was intact."""
    made = rebuild_workspace(path)
    terminal = Terminal()
    for problem in made.problems:
        terminal.marked("fail", problem)
    size = f"{made.entries} entries of the ledger, {counted(made.runs, 'run')}"
    terminal.marked("fail" if made.problems else "ok", f"rebuilt {', '.join(made.projects) or 'no project'}: {size}")
    if made.moved:
        terminal.line(f"      The old database is now {', '.join(made.moved)}.")
    terminal.line(f"      trainwright verify {path} compares all of it with the runs' records.")
    return not made.problems
