"""Runs that need not be trained again: of the same configuration, data, code and packages, and unchanged since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import gpus, ledger
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.room_notes import usable_kinds
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, best_trial, trials_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.tools.workspace.tables import Run, Study
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunDirectory, RunKind


def earlier_runs(
    workspace: Workspace, project: str, digest: str, *kinds: RunKind, study: str
) -> Iterator[tuple[Run, RunDirectory]]:
    """Give the project's sealed runs of these kinds that trained this very configuration, in order.

    Args:
        digest: of the configuration, seed included.
        study: the one that is to take them over: of runs on GPUs, those of its kind of GPU alone.
    """
    with workspace.session() as session:
        rows = [row for row in runs_of(session, project, *kinds) if row.config_digest == digest and row.sealed]
        if not rows:
            return
        seals = {body["run_id"]: body["digests"] for _, body in ledger.entries(session, project, "run_sealed")}
        evidence = Evidence(session, workspace, project)
        expected, usable = permits.expected_digests(evidence), usable_kinds(evidence, study)
        rows = [row for row in rows if gpus.kind_of_run(session, project, row.id) in {None, *usable}]
    for row in rows:
        directory = workspace.run_directory(project, row.id)
        specification = directory.specification()
        is_whole = specification.max_steps is None and specification.expected == expected
        if is_whole and row.id in seals and not ledger.seal_differences(directory, seals[row.id]):
            yield row, directory


def depends_on_present(evidence: Evidence, study: Study) -> bool:
    """Return whether a study's runs were made under what planning fixes now; its table must not mix two data sets."""
    run = evidence.session.scalars(select(Run).where(Run.study == study.id).order_by(Run.created_at).limit(1)).first()
    if run is None:
        return True
    plan = evidence.workspace.run_directory(evidence.name, run.id).specification()
    return plan.expected == permits.expected_digests(evidence)


# The better trial of an earlier study: what a newer study's best is beaten by, so that no result is lost.


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
