"""Pictures of runs, by run id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import Answer
from trainwright.tools.training_orchestrator import followed_next, refresh_run
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.records import get_run, get_study
from trainwright.trainer.base.errors import ConflictError

if TYPE_CHECKING:
    from trainwright.tools.figures.kinds import Kind, StudyKind
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunDirectory


class CurvesAnswer(Answer):
    """Path of the picture."""

    path: str
    kind: str
    run_ids: list[str]
    study_id: str | None = None
    found: str | None = None
    """What the picture of a study shows, in words."""


def plot_metrics(
    workspace: Workspace, run_ids: list[str], metric: str | None = None, kind: Kind = "curves"
) -> CurvesAnswer:
    """Draw one kind of picture of one run, or of several over one another, into the project's `plots/`.

    Raises:
        NotFoundError: an unknown run, or one that did not record what is drawn.
        ConfigurationError: the kind shows one run alone, or no metric.
    """
    from trainwright.tools.figures.drawing import draw

    project, directories = directories_of(workspace, run_ids)
    folder = workspace.project_folder(project) / "plots"
    folder.mkdir(exist_ok=True)
    name = run_ids[0] if len(run_ids) == 1 else f"comparison-{len(run_ids)}-{run_ids[0]}"
    further = "-".join(word for word in (kind if kind != "curves" else "", (metric or "").replace("/", "-")) if word)
    with workspace.snapshot() as session:
        names = handles(session, run_ids)
    path = draw(kind, directories, folder / f"{name}{'-' + further if further else ''}.png", metric, names)
    return CurvesAnswer(path=str(path), kind=kind, run_ids=run_ids, next=followed_next(workspace, project))


def plot_study(workspace: Workspace, study_id: str, kind: StudyKind) -> CurvesAnswer:
    """Draw one kind of picture of a study's trials into the project's `plots/`.

    Raises:
        NotFoundError: an unknown study, or one whose trials do not have what is drawn.
    """
    from trainwright.tools.hyperparameter_tuner.analysis import draw_study, subject_of

    with workspace.snapshot() as session:
        study = get_study(session, study_id)
        subject, project = subject_of(session, study), study.project
    folder = workspace.project_folder(project) / "plots"
    path, found = draw_study(kind, subject, folder / f"{study_id}-{kind}.png")
    return CurvesAnswer(
        path=str(path), kind=kind, run_ids=[], study_id=study_id, found=found, next=followed_next(workspace, project)
    )


def directories_of(workspace: Workspace, run_ids: list[str]) -> tuple[str, list[RunDirectory]]:
    """Return the project of some runs, and their directories. Raises ConflictError where they are of several."""
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
