"""The better trial of an earlier study: what a newer study's best is beaten by, so that no result is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.earlier_runs import depends_on_present
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, best_trial, trials_of
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.config import SearchSection

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


class Earlier(NamedTuple):
    """A trial of an earlier study."""

    study: str
    trial: TrialRecord

    def told(self) -> str:
        """Say which it is."""
        trial = self.trial
        return f"{self.study}, trial {trial.number}: {trial.value:.6g} by {trial.words()} (run {trial.run})"


def better_before(session: Session, workspace: Workspace, study: Study, best: TrialRecord | None) -> Earlier | None:
    """Return the best trial of the project's earlier studies, on its present data, where it beats the study's own."""
    query = select(Study).where(Study.project == study.project, Study.created_at < study.created_at)
    alike = [one for one in session.scalars(query) if not one.is_ablation and one.objective == study.objective]
    direction = study.objective["direction"]
    evidence = Evidence(session, workspace, study.project) if alike else None
    found = [Earlier(study.id, best)] if best is not None else []
    for one in alike:
        objectives = SearchSection.model_validate(one.search).objectives
        trial = best_trial(trials_of(session, one.id), direction, objectives)
        if trial is not None and evidence is not None and depends_on_present(evidence, one):
            found.append(Earlier(one.id, trial))
    sign = 1.0 if direction == "maximize" else -1.0
    first = max(found, key=lambda each: sign * (each.trial.value or 0.0), default=None)  # of equals the study's own
    return first if first is not None and first.study != study.id else None
