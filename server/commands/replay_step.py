"""`trainwright replay-step`: whether one step of a run gives the state that the run has committed to."""

from __future__ import annotations

from pathlib import Path

from trainwright.server.commands.terminal import Terminal
from trainwright.server.markdown import counted
from trainwright.tools.verification.step_replay import replay_step
from trainwright.tools.workspace import Workspace


def show_replay(path: Path, run_id: str, step: int, code_root: Path | None) -> bool:
    """Replay the step in a worker of its own, and show the outcome; return whether the states are the same.

    Args:
        path: the workspace.
        run_id: the run.
        step: one that it has committed to.
        code_root: where the user's code is; None: where it was.

    Raises:
        NotFoundError, IntegrityError, ConflictError: there is nothing to replay, or it did not get so far.
    """
    workspace = Workspace.open(path)
    try:
        done = replay_step(workspace, run_id, step, code_root=code_root)
    finally:
        workspace.close()
    terminal = Terminal()
    made = f"step {done.step} of {done.run_id}, replayed from {done.replayed_from} ({counted(done.steps, 'step')})"
    if done.identical:
        terminal.marked("ok", f"{made}: the states before and after it are those that the run has committed to")
    else:
        terminal.marked("fail", f"{made}: other states than the run has committed to")
        for cause in done.causes:
            terminal.line(f"      {cause}")
    return done.identical
