"""Stopping a run and seeing it through: it is heard within five seconds at every stage, or its processes are ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trainwright.tools.training_orchestrator.follow import follow
from trainwright.tools.training_orchestrator.signalling import worker_of
from trainwright.tools.training_orchestrator.stop import stop_run
from trainwright.tools.training_orchestrator.views import RunView, view_run
from trainwright.tools.workspace.records import get_run

if TYPE_CHECKING:
    from trainwright.tools.training_orchestrator.observation import Observation
    from trainwright.tools.workspace import Workspace

HEARD_SECONDS = 5.0
DEAF_SECONDS = 3.5
"""A worker whose heartbeat has been still for so long will not hear: code that holds the interpreter keeps it busy."""
POLL_SECONDS = 0.1


def stop_and_follow(
    workspace: Workspace, run_id: str, *, project: str | None = None, reason: str = "requested"
) -> RunView:
    """Stop a run, and return when it has ended, at the latest after five seconds. Raises as `stop_run` does.

    The worker ends in order where it can, and itself ends its processes where user code is deaf. This waits for that,
    and ends a worker whose heartbeat has stopped.
    """
    stop_run(workspace, run_id, project=project, reason=reason)
    began = time.time()
    with workspace.session() as session:
        run = get_run(session, run_id)
    while time.time() - began < HEARD_SECONDS:
        seen = follow(workspace, run)
        if seen.state.is_ended and run.sealed:
            break
        if _is_deaf(seen, began) and (process := worker_of(seen)) is not None:
            process.kill_tree()
        time.sleep(POLL_SECONDS)
    return view_run(workspace, run)


def _is_deaf(seen: Observation, began: float) -> bool:
    now = time.time()
    is_still = now - max(began, seen.status.heartbeat_at) > DEAF_SECONDS
    return is_still and not seen.state.is_ended and not seen.launch.awaited and seen.status.stage != "saving"
