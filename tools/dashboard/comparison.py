"""Comparison of runs on the page: their results beside each other, and what differed between them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from trainwright.tools.training_monitor import RunComparison, compare_runs
from trainwright.tools.training_monitor.record import OF_THE_LOSS
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_handles
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.base.errors import ConfigurationError

MAX_RUNS = 8


class ComparisonPage(BaseModel):
    """Several runs side by side."""

    comparison: RunComparison
    handles: dict[str, str]
    """By run id."""
    keys: list[str]
    """Series that each of them has recorded; without the losses where these are of several scales."""


def comparison_page(workspace: Workspace, run_ids: Sequence[str]) -> ComparisonPage:
    """Return the comparison of two to eight runs. Raises NotFoundError, ConfigurationError, IntegrityError."""
    wanted = list(dict.fromkeys(run_ids))
    if not 2 <= len(wanted) <= MAX_RUNS:
        raise ConfigurationError(
            f"{len(wanted)} runs cannot be compared.", remedy=f"Choose 2 to {MAX_RUNS} runs of a project's table."
        )
    with workspace.snapshot() as session:
        rows = [get_run(session, run_id) for run_id in wanted]
        names = {long: handle for handle, long in run_handles(session).items()}
    directories = [workspace.run_directory(row.project, row.id) for row in rows]
    keys = [set(directory.metrics().keys()) for directory in directories]
    compared = compare_runs(directories)
    unlike = frozenset() if compared.losses_compared else OF_THE_LOSS
    return ComparisonPage(
        comparison=compared,
        handles={run_id: names.get(run_id, run_id) for run_id in wanted},
        keys=sorted(set.intersection(*keys) - unlike),
    )
