"""First trials of a search: the present configuration, then the guesses, before the method suggests any (TUNE-1)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import gpus, ledger
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.domain import Domain
from trainwright.tools.hyperparameter_tuner.room_notes import usable_kinds
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, best_trial, trials_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.tools.workspace.tables import Run, Study
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.errors import did_you_mean
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunDirectory, RunKind

ORIGIN = "origin"
"""Attribute of a trial that no method suggested."""
PRESENT, GUESS = "present", "guess"
NOTHING_BETTER = "the present configuration itself: the search found nothing better"


@dataclass(frozen=True)
class StartPoint:
    """Parameters of a trial that was given, not suggested."""

    parameters: dict[str, Any]
    origin: str


def start_points(search: SearchSection, domain: Domain) -> list[StartPoint]:
    """Return the search's first trials in order, each once, at most as many as it has trials."""
    points: dict[str, StartPoint] = {}
    if search.present_first and not why_not_present(domain):
        parameters = present_parameters(domain)
        points[canonical_json(parameters)] = StartPoint(parameters, PRESENT)
    for guess in search.guesses:
        parameters = completed(guess, domain)
        points.setdefault(canonical_json(parameters), StartPoint(parameters, GUESS))
    return list(points.values())[: search.trials]


def present_parameters(domain: Domain) -> dict[str, Any]:
    """Return the present configuration's values of the keys that are searched under them."""
    return domain.kept({key: domain.present.value(key) for key in domain.order})


def why_not_present(domain: Domain) -> str:
    """Return why the present configuration is none of the search's trials; empty where it is one."""
    parameters = present_parameters(domain)
    for key, value in parameters.items():
        if not domain.takes(key, value):
            return f"`{key}` = {value!r} is not {domain.where}"
    broken = domain.broken(parameters)
    return f"it does not meet {broken[0]}" if broken else ""


def begins_with(search: SearchSection, values: Mapping[str, Any]) -> list[str]:
    """Return a sentence where the search does not begin with the present configuration, though it was to."""
    why = why_not_present(Domain(search, values)) if search.present_first else ""
    return [f"the present configuration is none of the trials: {why}"] if why else []


def completed(guess: Mapping[str, Any], domain: Domain) -> dict[str, Any]:
    """Return a guess with the present values of the keys that it leaves out."""
    present = {key: domain.present.value(key) for key in domain.order if key not in guess}
    return domain.kept({**present, **guess})


def guess_problem(guess: Mapping[str, Any], domain: Domain) -> str:
    """Return what is wrong with a guess; empty where nothing is."""
    shown = json.dumps(dict(guess))
    for key, value in guess.items():
        if key not in domain.space:
            return f"guess {shown}: `{key}` is not searched{did_you_mean(key, domain.space)}"
        if not domain.takes(key, value):
            range_ = domain.space[key].model_dump(mode="json", exclude_none=True, exclude={"when"})
            return f"guess {shown}: `{key}` = {value!r} is not {domain.where} {json.dumps(range_)}"
    whole = completed(guess, domain)
    for key in guess:
        if key not in whole:
            return f"guess {shown}: `{key}` is searched only when {json.dumps(domain.space[key].when)}"
    for key, value in whole.items():
        if not domain.takes(key, value):
            return f"guess {shown} leaves `{key}` out, whose present value {value!r} is not {domain.where}"
    broken = domain.broken(whole)
    return f"guess {shown} does not meet {broken[0]}" if broken else ""


# Runs that need not be trained again: of the same configuration, data, code and packages, and unchanged since.


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
