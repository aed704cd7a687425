"""Costs: what training, search, storage and predictions cost, by measured hours and dated prices."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.access import present_access
from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.bounded_wait import PLAIN_SECONDS, waited
from trainwright.server.context import workspace_of
from trainwright.server.progress import Progress
from trainwright.server.surface.arguments import Detail, Project

if TYPE_CHECKING:
    from trainwright.tools.costs import CostAnswer


@agent_tool("tools.costs:CostAnswer", title="Estimate costs", read_only=True)
async def estimate_cost(
    context: Context[Any, Any],
    *,
    project: Project,
    hardware: Annotated[list[str] | None, Field(description="Default: all that the price file names")] = None,
    gpus: int = 1,
    epochs: int | None = None,
    runs: Annotated[int, Field(description="Default: one and its replay")] = 2,
    trials: int | None = None,
    requests_per_month: float | None = None,
    interruptions_per_day: Annotated[float | None, Field(description="Of spot machines")] = None,
    prices: Annotated[str | None, Field(description="File below code_root; default: the owner's prices.yaml")] = None,
    detail: Detail = "concise",
) -> CallToolResult:
    """Price a project's training, search, storage and predictions on each platform of dated prices, by the
    throughput that its runs measured, and its checkpoints' disk; break-even of spot."""
    from trainwright.tools import costs

    request = costs.read_cost_request(
        project=project, hardware=hardware, gpus=gpus, epochs=epochs, runs=runs, trials=trials,
        requests_per_month=requests_per_month, interruptions_per_day=interruptions_per_day, prices=prices,
    )  # fmt: skip
    workspace = await anyio.to_thread.run_sync(workspace_of, context)
    began, counts = time.monotonic(), present_access().operates  # counting a step's work runs the user's code

    def look(should_stop: Callable[[], bool]) -> CostAnswer:
        return costs.estimate_cost(workspace, request, should_stop=should_stop, counts=counts)

    told = "counting the work of a step"
    answer = await waited(context, look, lambda: Progress(time.monotonic() - began, PLAIN_SECONDS, told))
    cheapest = answer.platforms[0]
    low, high = cheapest.total
    where = f"{cheapest.platform} {cheapest.accelerator}"
    headline = f"The cheapest for {project} is {where}: {low:g} to {high:g} {answer.currency}."
    return reply(answer, headline, omit={"project", "currency"}, full=detail == "full")
