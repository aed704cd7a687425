"""Starting, watching, stopping and resuming runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.desk import workspace_of
from trainwright.server.strict import agent_tool, reply
from trainwright.server.surface.arguments import Changes, IdempotencyKey, Project, RunId, WaitSeconds
from trainwright.server.waiting import Progress, run_progress, waited

if TYPE_CHECKING:
    from trainwright.tools.training_orchestrator import RunView


@agent_tool("tools.training_orchestrator:RunView", title="Start a run")
def start_training(
    context: Context[Any, Any],
    *,
    project: Project,
    kind: Literal["smoke", "probe", "baseline", "ablation", "final"],
    changes: Annotated[Changes | None, Field(description="For an ablation: dotted keys to change")] = None,
    max_steps: Annotated[
        int | None, Field(ge=1, description="For a smoke run: stop after so many steps; for a probe: measure so many")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> CallToolResult:
    """Start a training run in the background and get its run_id at once. smoke: a few steps, to plan with; probe:
    measures time by phase, learning rates and batch sizes, and suggests changes; baseline; ablation: the
    configuration with changes; final: with the settled configuration. Refuses kinds that the phase does not permit,
    stale gates and used-up limits."""
    from trainwright.tools import training_orchestrator
    from trainwright.trainer.run import RunKind

    view = training_orchestrator.start_run(
        workspace_of(context),
        project,
        RunKind(kind),
        changes=changes,
        max_steps=max_steps,
        idempotency_key=idempotency_key,
    )
    return told(view)


@agent_tool("tools.training_orchestrator:RunView", title="Look at a run", read_only=True)
async def run_status(
    context: Context[Any, Any],
    run_id: RunId,
    wait_seconds: WaitSeconds = 0.0,
    after_step: Annotated[int | None, Field(ge=0, description="Return as soon as it is past this step")] = None,
) -> CallToolResult:
    """State, progress, latest metrics and open alerts of a run. With wait_seconds it returns early when the run ends
    or raises an alert. The run goes on when the wait ends or is cancelled."""
    from trainwright.tools.training_orchestrator import wait_for_run

    workspace = await anyio.to_thread.run_sync(workspace_of, context)

    def look(should_stop: Callable[[], bool]) -> RunView:
        return wait_for_run(workspace, run_id, wait_seconds, after_step, should_stop=should_stop)

    def progress() -> Progress:
        return run_progress(workspace, run_id)

    view = await waited(context, look, progress)
    return told(view)


@agent_tool("tools.training_orchestrator:RunView", title="Stop a run", destructive=True, idempotent=True)
def stop_training(context: Context[Any, Any], project: Project, run_id: RunId) -> CallToolResult:
    """Stop a run at the next step, with a checkpoint from which resume_training goes on. Refuses runs that have
    ended, and those of other projects."""
    from trainwright.tools import training_orchestrator

    view = training_orchestrator.stop_run(workspace_of(context), run_id, project=project)
    return told(view)


@agent_tool("tools.training_orchestrator:RunView", title="Resume a run", idempotent=True)
def resume_training(context: Context[Any, Any], project: Project, run_id: RunId) -> CallToolResult:
    """Go on with a stopped or interrupted run from its newest whole checkpoint; it ends with the same weights as if
    it had never been interrupted. Refuses completed runs, closed phases, and runs of other projects."""
    from trainwright.tools import training_orchestrator

    view = training_orchestrator.resume_run(workspace_of(context), run_id, project=project)
    return told(view)


def told(view: RunView) -> CallToolResult:
    """Return the answer about a run."""
    steps = f", step {view.step}/{view.total_steps}" if view.total_steps else ""
    said = {"run_id", "kind", "state", "project", *(("step", "total_steps") if steps else ())}
    return reply(view, f"Run {view.run_id} of {view.project} ({view.kind}): {view.state}{steps}.", said=said)
