"""What an answer says of an ablation study: its design, and at its end what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.ablation.publishing import PLOT, REPORT, recorded_results, study_seeds
from trainwright.tools.hyperparameter_tuner.ablation.section import recorded_search

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Study

MOST_EFFECTS = 12
SHOWN = ("effect", "aliases", "mean", "low", "high", "p_holm", "verdict")


def ablation_view(session: Session, workspace: Workspace, study: Study) -> dict[str, Any]:
    """Return design and seeds, and once it has ended the conclusion and the effects, those that differ first."""
    search = recorded_search(study.search)
    design = search.design
    found: dict[str, Any] = {
        "design": search.ablation.design,
        "configurations": len(design.arms),
        "seeds": study_seeds(study, search.ablation.repeats),
    }
    if design.resolution is not None:
        found |= {"resolution": design.resolution, "generators": design.generators}
    if design.letters:
        found["letters"] = {letter: key for key, letter in design.letters.items()}
    results = recorded_results(Evidence(session, workspace, study.project), study.id)
    if results is None:
        return found
    ranked = sorted(results["effects"], key=lambda one: one["p_holm"])
    folder = workspace.project_folder(study.project)
    found |= {
        "conclusion": results["conclusion"],
        "effects": [_shown(one) for one in ranked[:MOST_EFFECTS]],
        "report": str(folder / REPORT),
    }
    if len(ranked) > MOST_EFFECTS:
        found["more_effects"] = len(ranked) - MOST_EFFECTS
    if ranked:
        found["plot"] = str(folder / PLOT)
    return found


def _shown(effect: dict[str, Any]) -> dict[str, Any]:
    shown = {name: effect[name] for name in SHOWN if name in effect}
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in shown.items()}
