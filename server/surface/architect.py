"""The architect: a configuration planned from data, model, hardware, goal and limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.bounded_wait import PLAIN_SECONDS, waited
from trainwright.server.context import workspace_of
from trainwright.server.progress import Progress
from trainwright.server.surface.arguments import Detail, WaitSeconds
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.training_architect import PlanAnswer, PlanRequest

PlannedGoal = Literal["fastest", "balanced", "best_quality"]


class PlanAnswers(BaseModel):
    """A person's answers; what is left empty stays open."""

    data: str = ""
    target_column: str = ""
    text_column: str = ""
    time_column: str = ""
    group_column: str = ""
    series_group: str = ""
    horizon: int | None = None
    task: str = ""
    metric: str = ""
    target: float | None = None
    dollars_per_hour: float | None = None


def _request(**given: Any) -> PlanRequest:
    from trainwright.tools.training_architect import read_request

    return read_request(**given)


def open_points(  # noqa: PLR0917 - filled by name with the tool's arguments
    context: Context[Any, Any],
    intent: str,
    data: str | dict[str, Any] | None,
    model: str | dict[str, Any] | None,
    task: str | None,
    hardware: str | None,
    limits: dict[str, float] | None,
    metric: str | None,
    target: float | None,
    code_root: str,
) -> Elicit[PlanAnswers] | PlanAnswers:
    """Return the questions that stand before a plan, for a person; none where the client cannot show them."""
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return PlanAnswers()
    from trainwright.tools.training_architect import open_questions

    try:
        request = _request(
            intent=intent, data=data, model=model, task=task, hardware=hardware, limits=limits, metric=metric,
            target=target, code_root=code_root,
        )  # fmt: skip
        questions = open_questions(workspace_of(context), request)
    except TrainwrightError:  # the tool itself words it
        return PlanAnswers()
    if not questions:
        return PlanAnswers()
    return Elicit(f"To plan a training ({intent[:200]}): {' '.join(questions)}", PlanAnswers)


@agent_tool("tools.training_architect:PlanAnswer", title="Plan a training", idempotent=True)
async def plan_training(
    context: Context[Any, Any],
    *,
    intent: Annotated[str, Field(min_length=1, max_length=2000, description="What the model is for")],
    data: Annotated[
        str | dict[str, Any] | None, Field(description="A file or folder, or as in a configuration")
    ] = None,
    model: Annotated[
        str | dict[str, Any] | None, Field(description="A folder, hub id or built-in name; default: proposed")
    ] = None,
    task: Annotated[str | None, Field(description="Default: read from the data")] = None,
    hardware: Annotated[
        str | None, Field(description='e.g. "2x RTX 4090", "24 GB card"; default: this machine')
    ] = None,
    goal: PlannedGoal = "balanced",
    limits: Annotated[
        dict[str, float] | None, Field(description="memory_gib, hours, dollars, dollars_per_hour")
    ] = None,
    metric: Annotated[str | None, Field(description="Of the goal; default: the intent's")] = None,
    target: Annotated[float | None, Field(description="Value of the metric that is good enough")] = None,
    code_root: str = ".",
    write_files: Annotated[
        bool, Field(description="Also a script that trains outside Trainwright, with what it needs")
    ] = False,
    wait_seconds: WaitSeconds = PLAIN_SECONDS,
    detail: Annotated[Detail, Field(description="full: each value's source too")] = "concise",
    answers: Annotated[ElicitationResult[PlanAnswers], Resolve(open_points)],
) -> CallToolResult:
    """Plan before create_project: reads rows, lengths, classes and hardware, and returns one complete configuration
    with a reason for every value, alternatives, and what is assumed; or asks what is missing. Creates no
    project."""
    from trainwright.tools import training_architect

    request = _request(
        intent=intent, data=data, model=model, task=task, hardware=hardware, goal=goal, limits=limits, metric=metric,
        target=target, code_root=code_root,
    )  # fmt: skip
    if isinstance(answers, AcceptedElicitation):
        request = request.with_answers(answers.data.model_dump())
    workspace = await anyio.to_thread.run_sync(workspace_of, context)
    began = time.monotonic()

    def look(should_stop: Callable[[], bool]) -> PlanAnswer:
        return training_architect.plan_training(
            workspace, request, wait_seconds=wait_seconds, should_stop=should_stop, with_files=write_files
        )

    told = "reading data and model"
    answer = await waited(context, look, lambda: Progress(time.monotonic() - began, wait_seconds, told))
    return reply(answer, _headline(answer), omit={"state"}, full=detail == "full")


def _headline(answer: PlanAnswer) -> str:
    if answer.state == "questions":
        return "Before a plan, these questions are open."
    if answer.state == "running":
        return "The plan is running: data and model are being read."
    return 'The training is planned; why each value that is often set, and of all, with sources, by detail="full".'
