"""Comparison of runs side by side: named ones, those of a study, or those of a project by kind or label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation.paired import paired_tests
from trainwright.tools.figures.kinds import Kind, StudyKind
from trainwright.tools.gates.studies import study_in_words
from trainwright.tools.training_monitor import Goal, RunComparison
from trainwright.tools.training_monitor.compare import compare_runs as compare
from trainwright.tools.training_monitor.few_rows import few_rows_told
from trainwright.tools.training_orchestrator import followed_next, refresh_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.records import get_project, get_run, get_study, runs_of
from trainwright.tools.workspace.tables import Run, Study
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.base.text import one_line
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.evaluation import Evaluation

MAX_RUNS = 8
"""Side by side; of more, the best."""
MAX_READ = 200
"""Runs of a project or study, the newest, whose values are compared."""
MAX_CELLS = 48
"""Keys times runs, of the configurations' differences: an answer stays small."""
MAX_GROUPS = 8
MAX_WORST = 5
"""Rows that are named in words."""
CERTAIN_BELOW = 0.05
"""p of a paired test, from which on a difference of two trained models may be one of the rows alone."""
TRAINED = (RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL)


class ComparisonAnswer(Answer):
    """Runs side by side."""

    runs: list[dict[str, Any]]
    left_out: int | None = None
    """Further runs, which are in `groups` alone."""
    groups: list[dict[str, Any]] = Field(default_factory=list)
    """Runs that differ in their seed alone, together: seeds, mean and deviation of the metric. The best first."""
    groups_left_out: int | None = None
    differences: dict[str, dict[str, Any]]
    """Dotted configuration key to its value by run, where they differ."""
    differences_left_out: int | None = None
    """Further keys that differ; configure shows a run's configuration."""
    identity_differences: dict[str, dict[str, str | None]]
    """Of environment, data, code and engine: those whose digests differ between the runs."""
    named: dict[str, list[str]] = Field(default_factory=dict)
    """Packages, code files, data and hardware in which another run differs from the first."""
    notes: list[str]
    """Notes on the differences, and what may be claimed of them."""
    paired: list[dict[str, Any]] = Field(default_factory=list)
    """The first run's exported program and each other's on the same fixed rows, differences being first minus second:
    McNemar's test of classes, the paired t-test of losses, 95 % intervals of metrics; or why it is not tested."""
    picture: str | None = None
    """Path of the overlaid curves."""


def compare_runs(
    workspace: Workspace,
    run_ids: list[str] | None = None,
    *,
    project: str | None = None,
    study_id: str | None = None,
    only: str | None = None,
) -> ComparisonAnswer:
    """Return the runs' results and the differences between them.

    Args:
        run_ids: the runs; None: those of the study, or of the project.
        only: kind or label of a project's runs.

    Raises:
        NotFoundError: an unknown run, project or study, or fewer than two runs are chosen.
        ConfigurationError: nothing says which runs.
    """
    chosen = run_ids if run_ids is not None else _chosen(workspace, project, study_id, only)
    owner, directories = directories_of(workspace, chosen)
    with workspace.snapshot() as session:
        goal, names = Goal.model_validate(get_project(session, owner).goal), handles(session, chosen)
        searched = _searched(session, owner, chosen)
    found = compare(directories, MAX_RUNS, goal)
    ids = [row.run_id for row in found.runs]
    paired = paired_tests(workspace, owner, ids)
    after = NextCall(tool="compare_runs", arguments={"run_ids": ids})
    return ComparisonAnswer(
        **_bounded(found, [*(note for one in paired if (note := note_of_test(one))), *searched]),
        paired=paired,
        picture=_drawn(workspace.project_folder(owner), [one for one in directories if one.run_id in set(ids)], names),
        next=followed_next(workspace, owner, after=after),
    )


def _chosen(workspace: Workspace, project: str | None, study_id: str | None, only: str | None) -> list[str]:
    with workspace.snapshot() as session:
        if study_id is not None:
            study = get_study(session, study_id)
            rows = [row for row in runs_of(session, study.project) if row.study == study.id]
        elif project is not None:
            get_project(session, project)
            rows = [row for row in runs_of(session, project) if _is_meant(row, only)]
        else:
            raise ConfigurationError(
                "compare_runs needs run_ids, a project, or a study_id.",
                remedy="compare_runs(run_ids=['baseline-1', 'trial-1']), or compare_runs(project='…', only='trial').",
            )
        kinds = sorted({row.kind for row in runs_of(session, rows[0].project if rows else project)} if project else ())
    if len(rows) < 2:
        what = f"study {study_id}" if study_id is not None else f"project {project}, {only or 'trained'}"
        raise NotFoundError(
            f"A comparison needs two runs; {one_line(what, 120)}: {len(rows)}.",
            remedy=f"Name others: the project has runs of kind {', '.join(kinds)}."
            if kinds
            else "Wait for its trials: tuning_status shows them.",
        )
    return [row.id for row in rows[-MAX_READ:]]


def _is_meant(row: Run, only: str | None) -> bool:
    return row.kind in TRAINED if only is None else only in {row.kind, row.label}


def note_of_test(test: dict[str, Any]) -> str:
    """Return what a paired test shows of two trained models, beside what their seeds leave open; else empty."""
    p = min((test[name]["p_value"] for name in ("classes", "loss") if name in test), default=1.0)
    if p >= CERTAIN_BELOW:
        return ""
    return (
        f"As trained, {test['first']} and {test['second']} do differ on the same {test['rows']} rows (p = {p:.1g}): "
        "the rows are no chance. Whether configuration or seed made it, several seeds tell."
    )


def _searched(session: Session, project: str, run_ids: list[str]) -> list[str]:
    """Return what each study found over seeds of which trials, or the configuration that it began from, are compared.

    Its gain is positive where the best trial is better.
    """
    rows = [get_run(session, run_id) for run_id in run_ids]
    of_studies, digests = {row.study for row in rows}, {row.config_digest for row in rows}
    query = select(Study).where(Study.project == project, Study.state == "completed").order_by(Study.created_at)
    return [
        f"{study.id}: {study_in_words(study.state, study.confirmation)}, best {study.confirmation['best_parameters']}"
        for study in session.scalars(query)
        if study.confirmation and (study.id in of_studies or study.base_config_digest in digests)
    ]


def _bounded(found: RunComparison, further: list[str]) -> dict[str, Any]:
    """Return the answer's fields of a comparison, with at most so many rows, keys and groups as fit."""
    rows = [row.model_dump(exclude_none=True) for row in found.runs]
    if len(rows) > 3:
        for row in rows:  # of few runs the last epoch's values too
            row.pop("final")
    keys = list(found.differences)
    most = max(4, MAX_CELLS // max(len(rows), 1))
    groups = [group.model_dump(exclude_none=True) for group in found.groups]
    for group in groups:
        if len(group["runs"]) > 4:
            group["runs"] = [*group["runs"][:4], f"and {len(group['runs']) - 4} more"]
    return {
        "runs": rows,
        "left_out": found.left_out or None,
        "groups": groups[:MAX_GROUPS] if any(group.seeds > 1 for group in found.groups) else [],
        "groups_left_out": max(len(groups) - MAX_GROUPS, 0) or None,
        "differences": {key: found.differences[key] for key in keys[:most]},
        "differences_left_out": max(len(keys) - most, 0) or None,
        "identity_differences": found.identity_differences,
        "named": found.named,
        "notes": found.notes + further,
    }


def _drawn(folder: Path, runs: list[RunDirectory], names: dict[str, str]) -> str | None:
    """Draw the runs over one another into the project's `plots/`; None where they are one."""
    from trainwright.tools.figures.curves import comparison

    if len({run.run_id for run in runs}) < 2:
        return None
    (folder / "plots").mkdir(exist_ok=True)
    return str(comparison(runs, folder / "plots" / f"comparison-{len(runs)}-{runs[0].run_id}.png", names=names))


# Pictures of runs, by run id.


class CurvesAnswer(Answer):
    """Path of the picture."""

    path: str
    kind: str
    run_ids: list[str]
    study_id: str | None = None
    found: str | None = None
    """What the picture of a study, or of the worst rows, shows, in words."""


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
    found = worst_in_words(directories[0]) if kind == "worst_samples" else None
    return CurvesAnswer(path=str(path), kind=kind, run_ids=run_ids, found=found, next=followed_next(workspace, project))


def worst_in_words(run: RunDirectory) -> str | None:
    """Return the worst validation rows, a few with much of the loss first; None where no label is one value."""
    worst = run.part(Evaluation).worst[:MAX_WORST]
    rows = [one for one in worst if isinstance(one.target, str | float | int)]
    if not rows:
        return None
    named = "; ".join(
        f"{'row' if one.source_row is None else 'source row'} {one.row if one.source_row is None else one.source_row}: "
        f"label {_value(one.target)}, predicted {_value(one.prediction)}"
        for one in rows
    )
    return f"{few_rows_told(run)} {named}".strip()


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


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
