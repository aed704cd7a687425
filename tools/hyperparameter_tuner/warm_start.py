"""Warm start: trials of earlier studies as known results of a search (TUNE-5).

A trial is taken where it measured the same thing: the same objective on the same data, code and packages, and a
configuration that the new search could try. Which ones were taken is settled when the study begins, with a digest of
them, so that its suggestions stay a function of what its record names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.domain import Domain, Present
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord, trials_of
from trainwright.tools.workspace.records import ACTIVE, get_run, get_study
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.canonical import canonical_json, digest_json
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, near
from trainwright.trainer.config import SearchSection, apply_changes, config_digest, parse_config
from trainwright.trainer.config.search import Taken

DOCUMENT = "phases/04_optimization/workflow.md"


def settled_warm_start(
    evidence: Evidence, search: SearchSection, base_values: dict[str, Any], objective: dict[str, Any]
) -> dict[str, Taken]:
    """Return which trials of which earlier studies a new search takes over; empty where none are alike.

    Raises:
        ConfigurationError: it names a study that the project does not have, or one of another objective.
    """
    taken: dict[str, Taken] = {}
    seen = set[str]()
    for study in _named(evidence, search, objective):
        alike = [trial for trial in trials_of(evidence.session, study.id) if _measured_alike(evidence, trial)]
        translated = _translated(study, alike, search, base_values)
        by_parameters = {canonical_json(trial.parameters): trial for trial in reversed(translated)}
        fresh = [trial for trial in translated if by_parameters[canonical_json(trial.parameters)] is trial]
        fresh = [trial for trial in fresh if canonical_json(trial.parameters) not in seen]
        seen |= by_parameters.keys()
        if fresh:
            taken[study.id] = Taken(trials=[trial.number for trial in fresh], digest=_digest(fresh))
    return taken


def known_trials(session: Session, search: SearchSection, base_values: dict[str, Any]) -> list[TrialRecord]:
    """Return the results that a study begins with, as trials of its own space.

    Raises:
        ConflictError: they are no longer those that it began with.
    """
    if not isinstance(search.warm_start, dict):
        return []
    known: list[TrialRecord] = []
    for study_id, taken in search.warm_start.items():
        rows = [trial for trial in trials_of(session, study_id) if trial.number in taken.trials]
        found = _translated(get_study(session, study_id), rows, search, base_values)
        if _digest(found) != taken.digest:
            raise ConflictError(
                f"The trials of {study_id} are no longer those that this study started from (warm_start).",
                remedy="verify_reproducibility names what was changed; a new study with another seed starts afresh.",
            )
        known += found
    return known


def _named(evidence: Evidence, search: SearchSection, objective: dict[str, Any]) -> list[Study]:
    """Return the earlier studies that a search names, or all of its objective, in the order in which they began."""
    query = select(Study).where(Study.project == evidence.name).order_by(Study.created_at, Study.id)
    studies = [study for study in evidence.session.scalars(query) if not study.is_ablation]
    ended = {study.id: study for study in studies if study.state not in ACTIVE}
    if search.warm_start is True:
        return [study for study in ended.values() if study.objective == objective]
    names = list(search.warm_start) if isinstance(search.warm_start, list | dict) else []
    for name in names:
        study = ended.get(name)
        if study is None or study.objective != objective:
            why = "is not one of the project's ended studies" if study is None else f"searched by {study.objective}"
            hint = near(name, ended) or sorted(ended)[:3]
            raise ConfigurationError(
                f"search.warm_start names {name!r}, which {why}; the project has {', '.join(hint) or 'none'}.",
                remedy="Search with warm_start=true, which takes every earlier study that fits, or leave it out.",
                document=DOCUMENT,
            )
    return [ended[name] for name in dict.fromkeys(names)]


def _measured_alike(evidence: Evidence, trial: TrialRecord) -> bool:
    """Return whether a trial's run is sealed, unchanged, and saw what planning approves now."""
    if trial.state not in {COMPLETED, PRUNED} or trial.run is None:
        return False
    seal = evidence.facts.seals.get(trial.run)
    row = get_run(evidence.session, trial.run)
    if seal is None or not row.sealed:
        return False
    run = evidence.run(trial.run)
    expected = permits.expected_digests(evidence)
    return (
        run is not None
        and run.directory.specification().expected == expected
        and not ledger.seal_differences(run.directory, seal.digests)
    )


def _translated(
    study: Study, trials: Sequence[TrialRecord], search: SearchSection, base_values: dict[str, Any]
) -> list[TrialRecord]:
    """Return trials in the words of another search; those left out trained what it could not try."""
    domain, found = Domain(search.model_copy(update={"constraints": []}), base_values), []
    for trial in trials:
        values = apply_changes(study.base_values, trial.parameters)
        try:
            whole, present = config_digest(parse_config(values)), Present(values)
            parameters = domain.kept({key: present.value(key) for key in domain.order})
            same = config_digest(parse_config(apply_changes(base_values, parameters))) == whole
        except ConfigurationError:  # of another schema
            continue
        is_whole = all(trial.state == COMPLETED and one.metric in trial.further for one in search.objectives)
        if same and is_whole and all(domain.takes(key, value) for key, value in parameters.items()):
            found.append(replace(trial, parameters=parameters, attributes={}, run=None))
    return found


def _digest(trials: Sequence[TrialRecord]) -> str:
    """Return the digest of what a method learns from trials."""
    return digest_json(
        [
            [
                trial.number,
                trial.parameters,
                trial.state,
                trial.value,
                {str(k): v for k, v in trial.intermediate.items()},
                *([trial.further] if trial.further else []),
            ]
            for trial in trials
        ]
    )
