"""Curves and comparisons of runs, by run id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation.paired import paired_tests
from trainwright.tools.training_orchestrator import followed_next, refresh_run
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.base.errors import ConflictError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunDirectory


class CurvesAnswer(Answer):
    """Path of the picture."""

    path: str
    run_ids: list[str]


class ComparisonAnswer(Answer):
    """Runs side by side."""

    runs: list[dict[str, Any]]
    differences: dict[str, dict[str, Any]]
    """Dotted configuration key to its value by run, where they differ."""
    identity_differences: dict[str, dict[str, str | None]]
    """Of environment, data, code and engine: those whose digests differ between the runs."""
    notes: list[str]
    """Notes on the differences."""
    paired: list[dict[str, Any]] = Field(default_factory=list)
    """The first run's exported program and each other's on the same fixed rows, differences being first minus second:
    McNemar's test of classes, the paired t-test of losses, 95 % intervals of metrics; or why it is not tested."""


def plot_metrics(workspace: Workspace, run_ids: list[str], metric: str | None = None) -> CurvesAnswer:
    """Draw the learning curves of one run, or an overlay of several, into the project's `plots/`.

    Raises NotFoundError for an unknown run or a metric that was not recorded.
    """
    from trainwright.tools.training_monitor.plots import comparison, learning_curves

    project, directories = _directories(workspace, run_ids)
    folder = workspace.project_folder(project) / "plots"
    folder.mkdir(exist_ok=True)
    name = run_ids[0] if len(run_ids) == 1 else f"comparison-{len(run_ids)}-{run_ids[0]}"
    path = folder / f"{name}{'-' + metric.replace('/', '-') if metric else ''}.png"
    if metric is None and len(directories) == 1:
        learning_curves(directories, path)
    else:
        comparison(directories, path, metric)
    return CurvesAnswer(path=str(path), run_ids=run_ids, next=followed_next(workspace, project))


def compare_runs(workspace: Workspace, run_ids: list[str]) -> ComparisonAnswer:
    """Return the runs' results and the differences between their configurations. Raises NotFoundError."""
    from trainwright.tools.training_monitor.compare import compare_runs as compare

    project, directories = _directories(workspace, run_ids)
    found = compare(directories)
    after = NextCall(tool="compare_runs", arguments={"run_ids": run_ids})
    return ComparisonAnswer(
        runs=[row.model_dump(exclude_none=True) for row in found.runs],
        differences=found.differences,
        identity_differences=found.identity_differences,
        notes=found.notes,
        paired=paired_tests(workspace, project, [directory.run_id for directory in directories]),
        next=followed_next(workspace, project, after=after),
    )


def _directories(workspace: Workspace, run_ids: list[str]) -> tuple[str, list[RunDirectory]]:
    with workspace.session() as session:
        rows = [get_run(session, run_id) for run_id in dict.fromkeys(run_ids)]
    projects = sorted({row.project for row in rows})
    if len(projects) != 1:
        raise ConflictError(
            f"The runs belong to several projects ({', '.join(projects)}).", remedy="Name runs of one project."
        )
    for row in rows:
        refresh_run(workspace, row.id)
    return projects[0], [workspace.run_directory(row.project, row.id) for row in rows]
