"""Runs: started, monitored, stopped, resumed, and replayed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.bounded_wait import waited, watched_run
from trainwright.server.context import workspace_of
from trainwright.server.progress import Progress
from trainwright.server.surface.arguments import (
    TO_RESUME,
    Changes,
    Detail,
    IdempotencyKey,
    NewestRun,
    Project,
    RunId,
    WaitSeconds,
    names_study,
    run_of,
    study_of,
)

if TYPE_CHECKING:
    from trainwright.tools.training_orchestrator import RunView
    from trainwright.tools.workspace import Workspace


@agent_tool("tools.training_orchestrator:RunView", title="Start a run")
async def start_training(
    context: Context[Any, Any],
    *,
    project: Project,
    kind: Literal["smoke", "probe", "baseline", "leak_price", "ablation", "final"],
    changes: Annotated[
        Changes | None, Field(description="For an ablation, or how long and how carefully a final run trains")
    ] = None,
    template: Annotated[
        Literal["production"] | None, Field(description="For a final run: train longer, by this template")
    ] = None,
    max_steps: Annotated[int | None, Field(ge=1, description="Of a smoke run or a probe")] = None,
    finding: Annotated[str | None, Field(description="Of leak_price: a leak, by its name, or a column")] = None,
    idempotency_key: IdempotencyKey = None,
    wait_seconds: WaitSeconds = 0.0,
) -> CallToolResult:
    """Start a training run in the background; returns its run_id at once, or its state after the wait. smoke: a few
    steps, to plan with; probe: measures time, learning rates and batch sizes, and suggests changes; baseline;
    leak_price: it without a data leak; ablation: the configuration with changes; final: the settled one.
    Refuses kinds that the phase does not permit, stale gates and used-up limits."""
    from trainwright.tools import training_orchestrator
    from trainwright.trainer.run import RunKind

    def order(workspace: Workspace) -> RunView:
        return training_orchestrator.start_run(
            workspace,
            project,
            RunKind(kind),
            changes=changes,
            template=template,
            max_steps=max_steps,
            finding=finding,
            idempotency_key=idempotency_key,
        )

    return await started(context, order, wait_seconds)


@agent_tool("tools.training_orchestrator:RunView", title="Look at a run", read_only=True, shows_run=True)
async def run_status(
    context: Context[Any, Any],
    run_id: NewestRun = None,
    wait_seconds: WaitSeconds = 0.0,
    after_step: Annotated[int | None, Field(ge=0, description="Return as soon as it is past this step")] = None,
    detail: Detail = "concise",
) -> CallToolResult:
    """State, progress, latest metrics and open alerts of a run. wait_seconds ends when the run ends or raises an
    alert. The run goes on when the wait ends or is cancelled."""

    def find() -> tuple[Workspace, str]:
        workspace = workspace_of(context)
        return workspace, run_of(workspace, run_id)

    return answer_of(await watched_run(context, find, wait_seconds, after_step), full=detail == "full")


@agent_tool(
    "tools.training_orchestrator:RunView",
    "tools.hyperparameter_tuner:StudyView",
    title="Stop a run or study",
    destructive=True,
    idempotent=True,
)
def stop_training(context: Context[Any, Any], project: Project, run_id: NewestRun = None) -> CallToolResult:
    """Stop a run within seconds, whatever it does; one in training saves a checkpoint for resume_training.
    With a study's id (digits/study-1) stop the search; start_tuning resumes it. Refuses ended runs, and
    other projects'."""
    from trainwright.server.surface import tuning
    from trainwright.tools import hyperparameter_tuner, training_orchestrator

    workspace = workspace_of(context)
    if names_study(run_id):
        study = study_of(workspace, run_id, project)
        return tuning.answer_of(hyperparameter_tuner.stop_study(workspace, study, project=project))
    view = training_orchestrator.stop_and_follow(workspace, run_of(workspace, run_id, project), project=project)
    return answer_of(view)


@agent_tool("tools.training_orchestrator:RunView", title="Resume a run", idempotent=True)
async def resume_training(
    context: Context[Any, Any], project: Project, run_id: NewestRun = None, wait_seconds: WaitSeconds = 0.0
) -> CallToolResult:
    """Resume a stopped or interrupted run from its newest intact checkpoint; it ends with the same weights as if
    it had never been interrupted."""
    from trainwright.tools import training_orchestrator

    def order(workspace: Workspace) -> RunView:
        run = run_of(workspace, run_id, project, prefer=TO_RESUME)
        return training_orchestrator.resume_run(workspace, run, project=project)

    return await started(context, order, wait_seconds)


async def started(
    context: Context[Any, Any], order: Callable[[Workspace], RunView], wait_seconds: float
) -> CallToolResult:
    """Start a run, wait for it within bounds, and return the answer about it."""
    workspace, began = await anyio.to_thread.run_sync(workspace_of, context), time.monotonic()
    view = await waited(  # an environment's first run fetches what a worker lacks there
        context, lambda _: order(workspace), lambda: Progress(0.0, None, f"starting, {time.monotonic() - began:.0f} s")
    )
    if wait_seconds and not view.is_ended:
        run_id = view.run_id
        view = await watched_run(context, lambda: (workspace, run_id), wait_seconds)
    return answer_of(view)


def answer_of(view: RunView, *, full: bool = False) -> CallToolResult:
    """Return the answer about a run."""
    steps = f", step {view.step}/{view.total_steps}" if view.total_steps else ""
    omit = {"run_id", "kind", "state", "project", *(("step", "total_steps") if steps else ())}
    return reply(
        view,
        f"Run {view.run_id} of {view.project} ({view.kind}): {view.state}{steps}.",
        omit=omit,
        full=full,
    )


@agent_tool("tools.training_orchestrator:RunView", title="Verify reproducibility")
async def verify_reproducibility(
    context: Context[Any, Any],
    project: Project,
    run_id: Annotated[RunId | None, Field(description="Default: the final run, or else the baseline")] = None,
    *,
    steps: Annotated[int | None, Field(ge=1, description="Repeat only this many first steps, bit for bit")] = None,
    idempotency_key: IdempotencyKey = None,
    wait_seconds: WaitSeconds = 0.0,
) -> CallToolResult:
    """Train a run again with the same configuration and seed, and compare the weights tensor by tensor; names causes
    of a difference. A baseline's first `steps` show that another package or engine, or a moved module, does not matter:
    stale gates stand again. Refuses runs that are not completed."""
    from trainwright.tools.training_orchestrator import replay_run

    def order(workspace: Workspace) -> RunView:
        run = run_of(workspace, run_id, project) if run_id else None
        return replay_run(workspace, project, run_id=run, idempotency_key=idempotency_key, steps=steps)

    return await started(context, order, wait_seconds)
