"""Hyperparameter search."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.desk import workspace_of
from trainwright.server.strict import agent_tool, reply
from trainwright.server.surface.arguments import IdempotencyKey, Project, WaitSeconds
from trainwright.server.waiting import Progress, study_progress, waited

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner import StudyView


@agent_tool("tools.hyperparameter_tuner:StudyView", title="Start a search")
def start_tuning(
    context: Context[Any, Any],
    project: Project,
    search: Annotated[
        dict[str, Any] | None,
        Field(
            description="trials, method, pruning, confirmation_repeats and space, e.g. "
            '{"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 0.1, "log": true}}; '
            "default: the configuration's search section"
        ),
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> CallToolResult:
    """Search hyperparameters in the background: trials on the validation split, then the best and the baseline again
    on several seeds. Refuses outside the optimization phase and above the trial limit."""
    from trainwright.tools import hyperparameter_tuner

    view = hyperparameter_tuner.start_study(
        workspace_of(context), project, search=search, idempotency_key=idempotency_key
    )
    return told(view)


@agent_tool("tools.hyperparameter_tuner:StudyView", title="Look at a search", read_only=True)
async def tuning_status(
    context: Context[Any, Any],
    study_id: Annotated[str, Field(description="Study id")],
    wait_seconds: WaitSeconds = 0.0,
) -> CallToolResult:
    """Trials done, best trial so far, and at the end whether the improvement over the baseline holds on repeated
    seeds. With wait_seconds it returns early when the study ends. The study goes on when the wait is cancelled."""
    from trainwright.tools.hyperparameter_tuner import study_status

    workspace = await anyio.to_thread.run_sync(workspace_of, context)

    def look(should_stop: Callable[[], bool]) -> StudyView:
        return study_status(workspace, study_id, wait_seconds, should_stop=should_stop)

    def progress() -> Progress:
        return study_progress(workspace, study_id)

    view = await waited(context, look, progress)
    return told(view)


def told(view: StudyView) -> CallToolResult:
    """Return the answer about a study."""
    line = f"Study {view.study_id} of {view.project}: {view.state}, {view.trials_done}/{view.trials_total} trials."
    return reply(view, line, said={"study_id", "project", "state", "trials_done", "trials_total"})
