"""Publishing the results of an ablation study: table and forest plot, recorded and then moved into place."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sqlalchemy.orm import Session

import trainwright
from trainwright.tools import ledger
from trainwright.tools.documents.rendering import render
from trainwright.tools.figures.style import (
    BLACK,
    BLUE,
    GREY,
    NORMAL,
    PAPER,
    SMALL,
    VERMILION,
    cut,
    label,
    new_figure,
    plain,
    save,
)
from trainwright.tools.gates.ablated import told_beside_best
from trainwright.tools.gates.artifacts import digests_of, new_drafts, publish
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import accepted_code, experiments_of, folder_of_snapshot, incumbent_of
from trainwright.tools.gates.improvement import confirmation_seeds, validation_rows
from trainwright.tools.gates.studies import ablation_studies
from trainwright.tools.hyperparameter_tuner.ablation.results import results_of
from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSearch, recorded_search
from trainwright.tools.hyperparameter_tuner.experiments.report import REPORT as JOURNAL
from trainwright.tools.hyperparameter_tuner.experiments.report import rows_of, write_journal
from trainwright.tools.ledger.events import AblationChanged, TrialEnded
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_study
from trainwright.tools.workspace.tables import Study, now
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import write_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REPORT, PLOT = "ablation_results.md", "plots/ablation_forest.png"
PURPOSE = "ablation"
"""Its seeds are other ones than those on which an improvement is confirmed: a study must not try those beforehand."""


def study_seeds(study: Study, search: AblationSearch) -> list[int]:
    """Return the study's seeds, drawn from its reference configuration; more repeats only add to them.

    An experiment's are drawn for it alone: a change that suits the seeds of the last one gains nothing by that.
    """
    own_seed = parse_config(study.base_values).seed
    purpose = PURPOSE if search.experiment is None else study.id
    return confirmation_seeds(study.base_config_digest, search.ablation.repeats, own_seed=own_seed, purpose=purpose)


def is_decided(workspace: Workspace, study: Study, search: AblationSearch, lines: list[TrialEnded]) -> bool:
    """Return whether an experiment needs no more seeds."""
    if search.experiment is None:
        return False
    with workspace.session() as session:
        evidence = Evidence(session, workspace, study.project)
        seeds = study_seeds(study, search)
        return results_of(evidence, search, study.objective, seeds, lines).get("verdict") is not None


def publish_results(workspace: Workspace, study_id: str, lines: list[TrialEnded]) -> None:
    """Record the ended study with its results and artifacts; one that was stopped meanwhile is left alone."""
    with workspace.session() as session:
        study = get_study(session, study_id)
        search = recorded_search(study.search)
        evidence = Evidence(session, workspace, study.project)
        seeds = study_seeds(study, search)
        results = results_of(evidence, search, study.objective, seeds, lines)
        others = earlier_results(evidence, study_id)
        best = told_beside_best(results, validation_rows(evidence))
        rows = rows_of(evidence, study_id, results) if search.experiment is not None else []
    folder = workspace.project_folder(study.project)
    with TemporaryDirectory(prefix="trainwright-") as name:  # drawing takes too long to hold the lock
        drawn = Path(name)
        if rows:
            write_journal(rows, study.project, study.objective, drawn)
        else:
            write_report(drawn / REPORT, ablation_report(study, search, {**results, "best": best}, lines, others))
            if results["effects"]:
                forest_plot(results, drawn / PLOT)
        artifacts = digests_of(drawn)
        with workspace.session() as session:
            if get_study(session, study_id).state not in ACTIVE:
                return
            shutil.copytree(drawn, new_drafts(session, folder), dirs_exist_ok=True)
            ended = AblationChanged(
                study_id=study_id, state="completed", trials=lines, results=results, artifacts=artifacts,
                version=trainwright.__version__, ended_at=now(),
            )  # fmt: skip
            ledger.record(session, study.project, ended)
    with workspace.session() as session:
        publish(session, study.project, folder)


def ablation_report(
    study: Study, search: AblationSearch, results: dict[str, Any], lines: list[TrialEnded], others: dict[str, str]
) -> str:
    """Return the report as Markdown.

    Args:
        others: conclusions of the project's other studies, by id.
    """
    return render(
        "hyperparameter_tuner/ablation/ablation_report.md.j2",
        study=study, search=search, results=results, lines=lines, others=others, link=PLOT, design=search.design,
    )  # fmt: skip


def earlier_results(evidence: Evidence, study_id: str) -> dict[str, str]:
    """Return the conclusion of every other ablation study of the project that has ended, in order."""
    studies = ablation_studies(evidence).items()
    return {name: str(body["results"]["conclusion"]) for name, body in studies
            if body.get("results") and name != study_id}  # fmt: skip


def newest_ablation(evidence: Evidence) -> str | None:
    """Return the project's newest ablation study with its state; None where there is none."""
    studies = [*ablation_studies(evidence).items()]
    return f"{studies[-1][0]} ({studies[-1][1]['state']})" if studies else None


def recorded_results(evidence: Evidence, study_id: str) -> dict[str, Any] | None:
    """Return the results that the ledger holds of a study; None before it has ended."""
    bodies = [body for _, body in evidence.entries(AblationChanged.name) if body["study_id"] == study_id]
    return next((body["results"] for body in reversed(bodies) if body.get("results")), None)


# Forest plot of an ablation study: each effect with its interval, beside no effect.
#
# Source: Lewis and Clarke, "Forest Plots: Trying to See the Wood and the Trees", BMJ 322, 2001.

MAX_LINES = 3
"""Newest experiments in an answer."""
MAX_ROWS = 40
ROW_INCHES, FRAME_INCHES = 0.36, 1.6
LONGEST_NAME = 44


def forest_plot(results: dict[str, Any], path: Path) -> Path:
    """Draw the effects in their order, at most forty; wide whiskers hold for all comparisons together (Bonferroni)."""
    effects = results["effects"][:MAX_ROWS]
    figure, panels = new_figure(1, 1, FRAME_INCHES + ROW_INCHES * len(effects))
    axes = panels[0, 0]
    for row, effect in enumerate(effects):
        _row(axes, len(effects) - 1 - row, effect, results["direction"])
    axes.axvline(0.0, color=BLACK, linewidth=0.8)
    names = [plain(cut(str(effect["effect"]), LONGEST_NAME)) for effect in effects]
    axes.set_yticks(range(len(effects) - 1, -1, -1), names)
    axes.set_ylim(-0.7, len(effects) - 0.3)
    for own, colour in (("better", BLUE), ("worse", VERMILION), ("not told apart", GREY)):
        axes.plot([], [], "o", color=colour, label=own, markersize=4)
    axes.plot([], [], color=BLACK, linewidth=2.4, label="95 % interval")
    axes.plot([], [], color=BLACK, linewidth=0.8, label="95 % for all together")
    better = "higher" if results["direction"] == "maximize" else "lower"
    x = f"change of validation {results['metric']} ({better} is better)"
    label(axes, f"{len(results['seeds'])} seeds, paired", x, "")
    axes.tick_params(axis="y", labelsize=SMALL, length=0)
    axes.grid(visible=False, axis="y")
    return save(figure, f"Ablation study: effects on {results['metric']}", path)


def _row(axes: Axes, place: int, effect: dict[str, Any], direction: str) -> None:
    is_better = (effect["mean"] > 0) == (direction == "maximize")
    colour = GREY if not effect["differs"] else BLUE if is_better else VERMILION
    axes.plot([effect["low_all"], effect["high_all"]], [place, place], color=colour, linewidth=0.8)
    axes.plot([effect["low"], effect["high"]], [place, place], color=colour, linewidth=2.4, solid_capstyle="butt")
    axes.plot([effect["mean"]], [place], "o", color=colour, markersize=5, zorder=3)
    axes.annotate(
        f"{effect['mean']:+.3g}", (effect["mean"], place), xytext=(0, 5), textcoords="offset points", ha="center",
        fontsize=NORMAL - 1.5, color=colour, bbox=PAPER,
    )  # fmt: skip


# Answers about an ablation study: its design, and at its end what was found.

MAX_EFFECTS = 12
SHOWN = ("effect", "mean", "low", "high", "p_holm", "verdict")


def ablation_view(session: Session, workspace: Workspace, study: Study) -> dict[str, Any]:
    """Return design and seeds, and once it has ended the conclusion and the effects, those that differ first."""
    search, evidence = recorded_search(study.search), Evidence(session, workspace, study.project)
    if search.experiment is not None:
        return _experiment_view(workspace, evidence, study)
    design = search.design
    found: dict[str, Any] = {
        "design": search.ablation.design,
        "configurations": len(design.arms),
        "seeds": study_seeds(study, search),
    }
    if design.letters:
        found["letters"] = {letter: key for key, letter in design.letters.items()}
    results = recorded_results(evidence, study.id)
    if results is None:
        return found
    ranked = sorted(results["effects"], key=lambda one: one["p_holm"])
    folder = workspace.project_folder(study.project)
    beside = told_beside_best(results, validation_rows(evidence))
    found |= {
        "conclusion": results["conclusion"],
        **({"best": beside} if beside else {}),
        "effects": [_shown(one) for one in ranked[:MAX_EFFECTS]],
        "report": str(folder / REPORT),
    }
    if len(ranked) > MAX_EFFECTS:
        found["more_effects"] = len(ranked) - MAX_EFFECTS
    if ranked:
        found["plot"] = str(folder / PLOT)
    return found


def _experiment_view(workspace: Workspace, evidence: Evidence, study: Study) -> dict[str, Any]:
    """Return an experiment's idea, state of the code and verdict; of the journal the incumbent and the newest lines."""
    folder, every = workspace.project_folder(study.project), experiments_of(evidence)
    own = next(one for one in every if one.study == study.id)
    holds = incumbent_of(evidence, study.base_config_digest, accepted_code(evidence) or own.against_code)
    told = [one for one in every[:-MAX_LINES] if one.name == holds.name] + every[-MAX_LINES:]
    return {
        "experiment": own.name,
        "idea": own.idea,
        "against": own.against,
        "code": str(folder_of_snapshot(workspace, study.project, own.code)),
        **({"verdict": own.verdict, "conclusion": own.conclusion} if own.verdict else {}),
        "incumbent": holds.name,
        "journal": [one.told() for one in told],
        **({"more_experiments": len(every) - len(told)} if len(told) < len(every) else {}),
        **({"report": str(folder / JOURNAL)} if (folder / JOURNAL).is_file() else {}),
    }


def _shown(effect: dict[str, Any]) -> dict[str, Any]:
    shown = {name: effect[name] for name in SHOWN if name in effect}
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in shown.items()}
