"""`trainwright prune`, by which the owner gives disk back, after seeing what would go; and `trainwright rebuild`."""

from __future__ import annotations

from pathlib import Path

from trainwright.server.commands.terminal import Terminal
from trainwright.server.markdown import counted
from trainwright.tools.checkpoint_manager import PruneAnswer, finish_pruning, prune
from trainwright.tools.projects import project_names
from trainwright.tools.verification.rebuilding import rebuild_workspace
from trainwright.tools.workspace import Workspace


def prune_projects(path: Path, names: list[str], policy: dict[str, int], *, delete: bool) -> None:
    """Show what can go of these projects (all where none is named), and delete it where that is asked for.

    Args:
        path: the workspace.
        names: projects.
        policy: keys of the owner's `retention` that replace those of settings.yaml.
        delete: False for a dry run.

    Raises:
        NotFoundError: there is no such project.
        StorageError: files could not be deleted.
    """
    workspace = Workspace.open(path)
    terminal = Terminal()
    try:
        finish_pruning(workspace)
        wanted = workspace.settings.retention.model_copy(update=policy)
        shown = [prune(workspace, name, wanted) for name in names or project_names(workspace)]
        done = [prune(workspace, one.project, wanted, confirm=one.plan) if delete else one for one in shown]
        for answer in done:
            _show(terminal, answer)
    finally:
        workspace.close()
    if not delete and any(answer.checkpoints for answer in done):
        terminal.line("      Nothing was deleted. Run it again with --yes to delete these weights for good.")


def _show(terminal: Terminal, answer: PruneAnswer) -> None:
    verb = "deleted" if answer.deleted else "can go"
    size = f"{answer.freed_bytes / 2**20:.1f} MiB of {(answer.freed_bytes + answer.kept_bytes) / 2**20:.1f} MiB"
    terminal.marked("ok", f"{answer.project}: {size} {verb}, weights of {counted(answer.checkpoints, 'checkpoint')}")
    for line in answer.runs:
        terminal.line(f"      {line.run_id}: {counted(line.checkpoints, 'checkpoint')} ({line.why})")
    if answer.left_out:
        terminal.line(f"      and {counted(answer.left_out, 'run')} more")
    for name in answer.damaged:
        terminal.marked("warn", f"{name} is not as it was recorded and stays; `trainwright verify` names what differs")


# `trainwright rebuild`: a lost database made again from the projects' ledgers.


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
