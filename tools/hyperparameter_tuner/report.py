"""`tuning_results.md`: what was tried, what mattered, what was saved, and whether the improvement holds (TUNE-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner.memory_study import memory_study
from trainwright.tools.hyperparameter_tuner.plots import history_plot, slice_plot
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, TrialRecord, best_trial, trials_of
from trainwright.trainer.config import SearchSection, apply_changes, parse_config

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Study

ENOUGH_FOR_IMPORTANCE = 4
"""Completed trials below which importance says nothing."""


def tuning_report(session: Session, workspace: Workspace, study: Study) -> str:
    """Return the study's report as Markdown, and write its plots into the project's `plots/` folder."""
    search = SearchSection.model_validate(study.search)
    trials = trials_of(session, study.id)
    folder = workspace.project_folder(study.project) / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    history_plot(trials, study.objective, folder / "tuning_history.png")
    slice_plot(trials, search, study.objective, folder / "tuning_slices.png")
    sections = [
        f"{_head(study, search, trials)} {_studies(session, study)}",
        _best(study, trials),
        _confirmation(study),
        _importance(search, study.objective["direction"], trials),
        "## History\n\n![Objective by trial](plots/tuning_history.png)\n\n"
        "![Objective by parameter](plots/tuning_slices.png)",
        _savings(study, search, trials),
        _table(trials),
    ]
    return "\n\n".join(section for section in sections if section)


def importances(search: SearchSection, direction: str, trials: list[TrialRecord]) -> dict[str, float]:
    """Return each parameter's share of the objective's variation (PED-ANOVA), or {} when the trials are too few.

    Source: Watanabe et al., "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces",
    IJCAI 2023, as implemented in Optuna.
    """
    values = {trial.value for trial in trials if trial.state == COMPLETED}
    completed = [trial for trial in trials if trial.state == COMPLETED]
    if len(completed) < ENOUGH_FOR_IMPORTANCE or len(values) < 2 or len(search.space) < 2:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    study = memory_study(search.space, direction, completed)
    found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return {key: float(share) for key, share in found.items()}


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


def _head(study: Study, search: SearchSection, trials: list[TrialRecord]) -> str:
    counts = {state: sum(trial.state == state for trial in trials) for state in (COMPLETED, PRUNED, FAILED)}
    objective = study.objective
    told = ", ".join(f"{count} {state}" for state, count in counts.items())
    return (
        f"Study `{study.id}`: {len(trials)} trials ({told}), method {search.method}, seed {search.seed}, pruning "
        f"{search.pruning.name}. Objective: {objective['direction']} validation {objective['metric']}, "
        "the best epoch of each trial. The test split took no part."
    )


def _studies(session: Session, study: Study) -> str:
    """How often the project has searched from this configuration: with every further study, chance finds more."""
    bodies = [body for _, body in ledger.entries(session, study.project, "study")]
    ids = {body["study_id"] for body in bodies if body.get("base_config_digest") == study.base_config_digest}
    times = "1 study" if len(ids) == 1 else f"{len(ids)} studies"
    return f"The project has run {times} on this configuration."


def _best(study: Study, trials: list[TrialRecord]) -> str:
    best = best_trial(trials, study.objective["direction"])
    if best is None:
        return "## Best configuration\n\nNo trial completed."
    lines = [f"| `{key}` | {_shown(value)} |" for key, value in best.parameters.items()]
    head = f"## Best configuration\n\nTrial {best.number} (run `{best.run}`): {_shown(best.value)}.\n\n"
    return head + "\n".join(["| key | value |", "|---|---|", *lines])


def _confirmation(study: Study) -> str:
    found = study.confirmation
    if not found:
        return "## Confirmation\n\nNot run."
    keys = ("seeds", "baseline", "baseline_runs", "best", "best_runs", "differences")
    rows = [
        f"| {seed} | {_shown(base)} (`{base_run}`) | {_shown(best)} (`{best_run}`) | {difference:+.5g} |"
        for seed, base, base_run, best, best_run, difference in zip(*(found[key] for key in keys), strict=True)
    ]
    verdict = "holds" if found["validated"] else "is **not validated**"
    return "\n".join(
        [
            "## Confirmation on repeated seeds\n",
            "| seed | baseline | best configuration | improvement |",
            "|---|---|---|---|",
            *rows,
            f"\nMean improvement {found['improvement_mean']:+.5g}, {100 * found['confidence']:.4g} % t-interval "
            f"[{found['improvement_low']:+.5g}, {found['improvement_high']:+.5g}] over {len(rows)} paired seeds. "
            f"Spread of the baseline over the seeds: {found['baseline_spread']:.5g} (standard deviation). "
            f"The improvement {verdict}: the interval must lie above zero, and the mean above the spread. "
            "The server drew the seeds; the one that the trials ran with is not among them.",
        ]
    )


def _importance(search: SearchSection, direction: str, trials: list[TrialRecord]) -> str:
    found = importances(search, direction, trials)
    if not found:
        return ""
    rows = [f"| `{key}` | {share:.0%} |" for key, share in found.items()]
    return "\n".join(["## Importance (PED-ANOVA)\n", "| key | share |", "|---|---|", *rows])


def _savings(study: Study, search: SearchSection, trials: list[TrialRecord]) -> str:
    saved, planned = epochs_saved(study, trials)
    pruned = [f"trial {t.number} at epoch {max(t.intermediate, default=0)}" for t in trials if t.state == PRUNED]
    if not pruned:
        return f"## Pruning\n\nNothing was pruned ({search.pruning.name})."
    return f"## Pruning\n\n{', '.join(pruned)}: {saved} of {planned} planned epochs saved ({saved / planned:.0%})."


def _table(trials: list[TrialRecord]) -> str:
    keys = sorted({key for trial in trials for key in trial.parameters})
    head = ["trial", "state", "value", "epochs", *(f"`{key}`" for key in keys), "run"]
    rows = [_cells(trial, keys) for trial in trials]
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    failed = [t for t in trials if t.state == FAILED]
    causes = [f"- trial {t.number}: {(t.attributes.get('cause') or {}).get('message', 'unknown')}" for t in failed]
    return "\n".join(["## Trials\n", *lines, *(["", "Failed trials:", "", *causes] if causes else [])])


def _cells(trial: TrialRecord, keys: list[str]) -> list[str]:
    epochs = max(trial.intermediate, default=0)
    parameters = [_shown(trial.parameters.get(key)) for key in keys]
    run = f"`{trial.run}`" if trial.run else "-"
    return [str(trial.number), trial.state, _shown(trial.value), str(epochs), *parameters, run]


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
