"""Trials of an alert's fixes in short paired runs, as the ledger records them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from trainwright.tools.ledger.events import CureChanged
from trainwright.tools.training_monitor.pairs import PairOutcome
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.records import Records
    from trainwright.tools.ledger import ProjectFacts

RUNNING, ENDED, STOPPED = "running", "ended", "stopped"
KIND = RunKind.CURE.value
CONTROL = "control"
"""In the key of the run without any fix, where the others have their fix's id."""


def cures_of(evidence: Records) -> list[CureChanged]:
    """Return the project's trials of fixes with their latest state, in the order in which they began."""
    found: dict[str, CureChanged] = {}
    for _, body in evidence.entries(CureChanged.name):
        try:
            event = CureChanged.model_validate(body)
        except ValidationError:  # `verify` names the entry
            continue
        known = found.get(event.cure_id)
        found[event.cure_id] = known.model_copy(update=event.body()) if known is not None else event
    return list(found.values())


def cure_of(evidence: Records, run_id: str) -> CureChanged | None:
    """Return the newest trial of the fixes of one run's alerts, or of another run of the same configuration."""
    start = evidence.facts.started.get(run_id)
    alike = [one for one in cures_of(evidence) if start is not None and one.config_digest == start.config_digest]
    return alike[-1] if alike else None


def outcomes(evidence: Records, alert: str, config_digest: str) -> dict[str, PairOutcome]:
    """Return by fix what the trials of one alert gave on one configuration; the latest of each fix."""
    cures = [one for one in cures_of(evidence) if (one.alert, one.config_digest) == (alert, config_digest)]
    found: dict[str, PairOutcome] = {}
    for values in (values for one in cures for values in one.outcomes):
        outcome = read_outcome(values)
        if outcome is not None and outcome.cured is not None:
            found[outcome.fix] = outcome
    return found


def read_outcome(values: dict[str, Any]) -> PairOutcome | None:
    """Return an outcome from its ledger entry; None of one that was damaged."""
    try:
        return PairOutcome.model_validate(values)
    except ValidationError:
        return None


def run_key(cure_id: str, fix: str | None) -> str:
    """Return the idempotency key of one run of a trial: with one fix, or without any."""
    return f"{cure_id}/{fix or CONTROL}"


def runs_of_cure(facts: ProjectFacts, cure_id: str) -> dict[str, str]:
    """Return the runs of a trial by their fix, that without any as `control`, in order.

    A run of another kind that was started under such a key is none of them.
    """
    started = [(start.idempotency_key or "", run_id) for run_id, start in facts.started.items() if start.kind == KIND]
    return {key.removeprefix(f"{cure_id}/"): run_id for key, run_id in started if key.startswith(f"{cure_id}/")}
