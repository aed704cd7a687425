"""`trainwright journal`: a project's experiments, and their states of code as git commits."""

from __future__ import annotations

from pathlib import Path


def show_journal(path: Path, project: str, *, git: bool) -> None:
    """Print one line for each experiment; with the ref of its commit where they are written to git."""
    from trainwright.server.commands.terminal import Terminal
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.ideas import KEPT, experiments_of
    from trainwright.tools.hyperparameter_tuner.experiments.git_history import write_history
    from trainwright.tools.ledger import Look
    from trainwright.tools.workspace import Workspace

    terminal, workspace = Terminal(), Workspace.open(path)
    try:
        if git:
            for ref, told in write_history(workspace, project).items():
                terminal.line(f"{ref}: {told}")
            return
        with workspace.snapshot() as session:
            every = experiments_of(Evidence(session, workspace, project, inspection=Look()))
        for one in every:
            terminal.marked("ok" if one.verdict == KEPT else "info", one.told())
        folder = workspace.project_folder(project)
        terminal.line(f"{len(every)} experiments; {folder / 'experiments.md'}, {folder / 'experiments.tsv'}")
    finally:
        workspace.close()
