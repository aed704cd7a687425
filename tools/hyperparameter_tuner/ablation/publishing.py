"""Publishing the results of an ablation study: table and forest plot, recorded and then moved into place."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import trainwright
from trainwright.tools import ledger
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.artifacts import digests_of, new_drafts, publish
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import confirmation_seeds
from trainwright.tools.hyperparameter_tuner.ablation.forest import forest_plot
from trainwright.tools.hyperparameter_tuner.ablation.results import results_of
from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSearch, recorded_search
from trainwright.tools.ledger.events import AblationChanged
from trainwright.tools.workspace.records import ACTIVE, get_study
from trainwright.tools.workspace.tables import now
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import write_report

if TYPE_CHECKING:
    from trainwright.tools.ledger.events import TrialEnded
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Study

REPORT, PLOT = "ablation_results.md", "plots/ablation_forest.png"
PURPOSE = "ablation"
"""Its seeds are other ones than those on which an improvement is confirmed: a study must not try those beforehand."""


def study_seeds(study: Study, repeats: int) -> list[int]:
    """Return the study's seeds, drawn from its reference configuration; more repeats only add to them."""
    own_seed = parse_config(study.base_values).seed
    return confirmation_seeds(study.base_config_digest, repeats, own_seed=own_seed, purpose=PURPOSE)


def publish_results(workspace: Workspace, study_id: str, lines: list[TrialEnded]) -> None:
    """Record the ended study with its results and artifacts; one that was stopped meanwhile is left alone."""
    with workspace.session() as session:
        study = get_study(session, study_id)
        search = recorded_search(study.search)
        evidence = Evidence(session, workspace, study.project)
        seeds = study_seeds(study, search.ablation.repeats)
        results = results_of(evidence, search, study.objective, seeds, lines)
        others = earlier_results(evidence, study_id)
    folder = workspace.project_folder(study.project)
    with TemporaryDirectory(prefix="trainwright-") as name:  # drawing takes too long to hold the lock
        drawn = Path(name)
        write_report(drawn / REPORT, ablation_report(study, search, results, lines, others))
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
    bodies = [body for _, body in evidence.entries(AblationChanged.name)]
    ended = {body["study_id"]: str(body["results"]["conclusion"]) for body in bodies if body.get("results")}
    return {name: text for name, text in ended.items() if name != study_id}


def newest_ablation(evidence: Evidence) -> str | None:
    """Return the project's newest ablation study with its state; None where there is none."""
    bodies = [body for _, body in evidence.entries(AblationChanged.name)]
    return f"{bodies[-1]['study_id']} ({bodies[-1]['state']})" if bodies else None


def recorded_results(evidence: Evidence, study_id: str) -> dict[str, Any] | None:
    """Return the results that the ledger holds of a study; None before it has ended."""
    bodies = [body for _, body in evidence.entries(AblationChanged.name) if body["study_id"] == study_id]
    return next((body["results"] for body in reversed(bodies) if body.get("results")), None)
