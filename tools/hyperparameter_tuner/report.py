"""Report of a study (`tuning_results.md`): trials, importances, savings, and the improvement over seeds (TUNE-4)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.analysis import Subject, draw_study, drawable_kinds, subject_of
from trainwright.tools.hyperparameter_tuner.ends import ended_by
from trainwright.tools.hyperparameter_tuner.start_points import GUESS, ORIGIN, PRESENT, begins_with, better_before
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, TrialRecord
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.config import SearchSection, apply_changes, parse_config

CAPTIONS = {
    "history": "Objective by trial",
    "slices": "Objective by parameter",
    "importance": "Importance of the parameters",
    "parallel": "Completed trials through their parameters",
    "contour": "Objective over two parameters",
    "intermediate": "Trials by epoch",
    "pareto": "Pareto front",
}


def tuning_report(session: Session, workspace: Workspace, study: Study) -> str:
    """Return the study's report as Markdown, and write its plots into the project's `plots/` folder."""
    subject = subject_of(session, study)
    search, trials = subject.search, subject.trials
    saved, planned = epochs_saved(study, trials)
    bodies, digest = ledger.entries(session, study.project, "study"), study.base_config_digest
    ids = {body["study_id"] for _, body in bodies if body.get("base_config_digest") == digest}
    return render(
        "hyperparameter_tuner/tuning_report.md.j2",
        study=study,
        search=search,
        trials=trials,
        given=_given(search, study, trials),
        counts={state: sum(trial.state == state for trial in trials) for state in (COMPLETED, PRUNED, FAILED)},
        studies=len(ids),
        best=subject.best,
        earlier=better_before(session, workspace, study, subject.best),
        is_present=subject.best is not None and subject.best.attributes.get(ORIGIN) == PRESENT,
        front=subject.front,
        found=study.confirmation,
        early=ended_by(session, study),
        reported=_reported(session, workspace, study),
        importance=subject.importance,
        pictures=_pictures(subject, workspace.project_folder(study.project) / "plots"),
        saved=saved,
        planned=planned,
        keys=sorted({key for trial in trials for key in trial.parameters}),
        epochs=lambda trial: max(trial.intermediate, default=0),
    )


def _given(search: SearchSection, study: Study, trials: list[TrialRecord]) -> str:
    """Return which trials were given and not suggested, and what the method knew of earlier studies."""
    origins = {trial.number: trial.attributes.get(ORIGIN) for trial in trials}
    guessed = [str(number) for number, origin in origins.items() if origin == GUESS]
    said = ["Trial 0 is the present configuration."] if PRESENT in origins.values() else []
    said += [f"{note[0].upper()}{note[1:]}.".replace("`", "") for note in begins_with(search, study.base_values)]
    said += [f"Given as guesses: {', '.join(guessed)}."] if guessed else []
    if isinstance(search.warm_start, dict):
        taken = ", ".join(f"{len(taken.trials)} of {name}" for name, taken in search.warm_start.items())
        said.append(f"It began with the results of earlier trials: {taken or 'none was alike'}.")
    return " ".join(said)


def _reported(session: Session, workspace: Workspace, study: Study) -> dict[str, float | None]:
    """Return what each repetition's training process reported, by run, where the values compared are certified ones."""
    found = study.confirmation or {}
    if not found.get("certified"):
        return {}
    evidence, metric = Evidence(session, workspace, study.project), study.objective["metric"]
    runs = [evidence.run(run_id) for run_id in (*found["baseline_runs"], *found["best_runs"])]
    return {run.id: run.reported_value(metric) for run in runs if run is not None}


def _pictures(subject: Subject, folder: Path) -> list[tuple[str, str]]:
    """Draw what the study's trials are enough for; return (what it shows, file name) of each."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = drawable_kinds(subject)
    return [(CAPTIONS[kind], draw_study(kind, subject, folder / f"tuning_{kind}.png")[0].name) for kind in kinds]


def epochs_saved(study: Study, trials: list[TrialRecord]) -> tuple[int, int]:
    """Return (epochs that pruning spared, epochs that all trials had planned); failed trials count in neither."""
    planned = saved = 0
    for trial in trials:
        if trial.state not in {COMPLETED, PRUNED}:
            continue
        epochs = parse_config(apply_changes(study.base_values, trial.parameters)).training.epochs
        planned += epochs
        saved += epochs - max(trial.intermediate, default=0) if trial.state == PRUNED else 0
    return saved, planned
