"""Attempts in a project, by its ledger: with every further one, chance finds a better value.

Another configuration may be tried at any time, its seed and its split's included. So choosing among attempts is not
forbidden, but it is reported: where optimization is decided, and in the model card.
"""

from __future__ import annotations

from typing import NamedTuple

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leak_prices import found_leaks, leaks_of
from trainwright.tools.gates.rows_moved import validates_on_same_rows
from trainwright.tools.gates.shown import gain
from trainwright.tools.ledger import seal_differences
from trainwright.tools.ledger.events import RunStarted
from trainwright.trainer.run import RunKind, RunState

KINDS = (RunKind.BASELINE.value, RunKind.ABLATION.value, RunKind.FINAL.value)
MAX_NAMED = 6


class Attempt(NamedTuple):
    """One run outside studies whose validation values the next choice could be made by."""

    run: str
    kind: str
    configuration: int | None
    """Number of the project's version that it started from; None when that was removed."""
    seed: int
    value: float | None
    """The goal's metric at its best epoch; None unless it completed and its record is as it was sealed."""
    state: str
    leaked: str = ""
    """Leaks that planning found in its data, and that the present data have no more."""

    def __str__(self) -> str:
        """In a few words: `0.97 (seed 42)`."""
        return f"{self.state if self.value is None else format(self.value, '.6g')} (seed {self.seed})"


def attempts(evidence: Evidence) -> list[Attempt]:
    """Return the project's baselines, ablations and final runs in order of their start."""
    versions: dict[str, int] = {}
    for number, version in sorted(evidence.facts.configurations.items()):
        versions.setdefault(version.digest, number)
    started = evidence.facts.started.values()
    leaked = _leaks_since_taken_out(evidence)
    return [
        _attempt(evidence, start, versions)._replace(leaked=", ".join(leaked.get(start.base_config_digest, [])))
        for start in started
        if start.kind in KINDS and start.study is None
    ]


def gain_over_first(evidence: Evidence) -> str:
    """Return how much better the final model is than the project's first baseline, negative where it is worse.

    Empty where it is that one.

    Against one whose data leaked, or on other validation rows, there is no such difference, and that is said.
    """
    first = next((one for one in attempts(evidence) if one.kind == KINDS[0] and one.value is not None), None)
    final = evidence.final
    value = final.best_value(evidence.goal_metric) if final is not None else None
    if first is None or final is None or value is None or first.value is None or first.run == final.id:
        return ""
    if first.leaked:
        return f"none told: {first.run} had {first.leaked} in its data, which was taken out since"
    run = evidence.run(first.run)
    if run is not None and not validates_on_same_rows(evidence, run, final):
        return f"none told: {first.run} was evaluated on other rows"
    better = gain(evidence.goal, value) - gain(evidence.goal, first.value)
    return f"{better:+.4f} ({first.run} {first.value:.4g}, the final run {value:.4g})"


def _leaks_since_taken_out(evidence: Evidence) -> dict[str, list[str]]:
    """Return by configuration the leaks that its smoke run found and that the present one's did not."""
    present = {check.place for check in found_leaks(evidence)}
    found: dict[str, list[str]] = {}
    for run_id, start in evidence.facts.started.items():
        run = evidence.run(run_id) if start.kind == RunKind.SMOKE else None
        if run is not None and run.is_complete:
            gone = [check.place for check in leaks_of(run) if check.severity != "info" and check.place not in present]
            found[start.base_config_digest] = gone
    return found


def configurations(evidence: Evidence) -> int:
    """Return how many different configurations the project has had."""
    return len({version.digest for version in evidence.facts.configurations.values()})


def describe_attempts(evidence: Evidence) -> str:
    """Describe the attempts that the baseline was chosen from; empty for the only one."""
    found = attempts(evidence)
    if len(found) < 2:
        return ""
    kinds = {kind: [each for each in found if each.kind == kind] for kind in KINDS}
    named = "; ".join(f"{kind}s {_listed(own)}" for kind, own in kinds.items() if own)
    return f"{len(found)} attempts, {configurations(evidence)} configurations: {named}"


def _attempt(evidence: Evidence, start: RunStarted, versions: dict[str, int]) -> Attempt:
    seal = evidence.facts.seals.get(start.run_id)
    state = seal.state if seal else "not ended"
    run = evidence.run(start.run_id)
    value = None
    if seal is not None and state == RunState.COMPLETED:
        is_whole = run is not None and not seal_differences(run.directory, seal.digests, evidence.inspection)
        value = run.best_value(evidence.goal_metric) if run is not None and is_whole else None
        state = state if is_whole else "record changed"
    return Attempt(start.run_id, start.kind, versions.get(start.base_config_digest), start.seed, value, state)


def _listed(found: list[Attempt]) -> str:
    last = f" (the last {MAX_NAMED} of {len(found)})" if len(found) > MAX_NAMED else ""
    return ", ".join(map(str, found[-MAX_NAMED:])) + last
