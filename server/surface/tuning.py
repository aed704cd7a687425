"""Hyperparameter search."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.bounded_wait import watched_study
from trainwright.server.context import workspace_of
from trainwright.server.surface.arguments import Detail, IdempotencyKey, Project, WaitSeconds, study_of

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner import StudyView


@agent_tool("tools.hyperparameter_tuner:StudyView", title="Start a search")
async def start_tuning(
    context: Context[Any, Any],
    project: Project,
    search: Annotated[
        dict[str, Any] | None,
        Field(
            description="trials, width (side by side), method, pruning, confirmation_repeats and space, e.g. "
            '{"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 0.1, "log": true}}; '
            "default: the configuration's search section. Or an ablation study: "
            '{"ablation": {"factors": {"optimizer.weight_decay": [0]}}}; '
            'or an idea in code: {"experiment": {"idea": "..."}}'
        ),
    ] = None,
    idempotency_key: IdempotencyKey = None,
    wait_seconds: WaitSeconds = 0.0,
) -> CallToolResult:
    """Search hyperparameters in the background: trials on the validation split, then the best and the baseline again
    on several seeds. Refuses outside the optimization phase and above the trial limit.
    The others may start in any phase after the baseline."""
    from trainwright.tools import hyperparameter_tuner

    workspace = await anyio.to_thread.run_sync(workspace_of, context)
    start = partial(hyperparameter_tuner.start_study, search=search, idempotency_key=idempotency_key)
    view = await anyio.to_thread.run_sync(start, workspace, project)
    if wait_seconds and not view.is_ended:
        seen = await watched_study(context, workspace, view.study_id, wait_seconds)
        view = seen.model_copy(update={"taken_as": view.taken_as})
    return answer_of(view)


@agent_tool("tools.hyperparameter_tuner:StudyView", title="Look at a search", read_only=True)
async def tuning_status(
    context: Context[Any, Any],
    study_id: Annotated[str | None, Field(description="e.g. digits/study-1, digits; default: the newest")] = None,
    wait_seconds: WaitSeconds = 0.0,
    detail: Detail = "concise",
    project: Project | None = None,
) -> CallToolResult:
    """Trials done, best trial so far, and at the end whether the improvement over the baseline holds on repeated
    seeds. With wait_seconds it returns when the study ends."""
    workspace = await anyio.to_thread.run_sync(workspace_of, context)
    study = await anyio.to_thread.run_sync(study_of, workspace, study_id, project)
    return answer_of(await watched_study(context, workspace, study, wait_seconds), full=detail == "full")


def answer_of(view: StudyView, *, full: bool = False) -> CallToolResult:
    """Return the answer about a study."""
    kind, each = ("Study", "trials") if view.ablation is None else ("Ablation study", "runs")
    kind = "Experiment" if "idea" in (view.ablation or {}) else kind
    line = f"{kind} {view.study_id} of {view.project}: {view.state}, {view.trials_done}/{view.trials_total} {each}."
    return reply(view, line, omit={"study_id", "project", "state", "trials_done", "trials_total"}, full=full)
