"""Attempts in a project, by its ledger: with every further one, chance finds a better value.

Another configuration may be tried at any time, its seed and its split's included. So choosing among attempts is not
forbidden, but it is reported: where optimization is decided, and in the model card.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from trainwright.tools.answers import NextCall
from trainwright.tools.evaluation.told_apart import shown_by
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leak_prices import found_leaks, leaks_of
from trainwright.tools.gates.rows_moved import validates_on_same_rows
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.shown import gain
from trainwright.tools.ledger import seal_differences
from trainwright.tools.ledger.events import RunStarted
from trainwright.tools.training_monitor.outdone import BETTER
from trainwright.trainer.config import TrainingConfig, flatten
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


def chosen_of(evidence: Evidence) -> str:
    """Return what was released of which attempts, in a sentence; empty where there was one alone."""
    found = attempts(evidence)
    if evidence.study is None and len(found) < 2:
        return ""
    final, several = evidence.final, "The best of several attempts was chosen on the validation split."
    value = final.best_value(evidence.goal_metric) if final is not None else None
    rivals = [one for one in found if one.value is not None and not one.leaked and _is_comparable(evidence, one)]
    if final is None or value is None or not rivals:
        return several
    best = max(rivals, key=lambda one: gain(evidence.goal, one.value or 0.0))
    if gain(evidence.goal, best.value or 0.0) <= gain(evidence.goal, value):
        return several
    return (
        f"Of several attempts {final.id} was released ({evidence.goal_metric} {value:.4g}), and not the best on the "
        f"validation split, {best.run} ({best.value:.4g})."
    )


def _is_comparable(evidence: Evidence, one: Attempt) -> bool:
    run = evidence.run(one.run)
    return run is not None and evidence.final is not None and validates_on_same_rows(evidence, run, evidence.final)


def better_ablation(evidence: Evidence) -> NextCall | None:
    """Return the change to the best ablation that the same rows show to be better than the baseline; None without one.

    Of several ablations one may be better by chance, so each is held to its part of the 5 %.
    """
    baseline, goal, metric = evidence.baseline, evidence.goal, evidence.goal_metric
    if baseline is None or (value := baseline.best_value(metric)) is None:
        return None
    pairs = [(run, pair) for run in _ablations(evidence) if (pair := _beside(run, baseline.id).get("paired"))]
    shown = partial(
        shown_by, metric=metric, names=("the ablation", "the baseline"), is_minimized=goal["direction"] == "minimize",
        together=max(len(pairs), 1),
    )  # fmt: skip
    better = [(own, run, shown(pair)) for run, pair in pairs
              if (own := run.best_value(metric)) is not None and shown(pair).word == BETTER]  # fmt: skip
    if not better:
        return None
    best, run, told = max(better, key=lambda one: gain(goal, one[0]))
    low, high = told.interval or (0.0, 0.0)
    why = (
        f"{run.id} is better than {baseline.id} on the same validation rows ({metric} {best:.4g} against {value:.4g}, "
        f"interval of the difference {low:.3g} to {high:.3g}), and would not be released. "
        f"pass_gate(project={evidence.name!r}, phase='optimization') keeps the baseline"
    )
    reason = f"{run.id} is better on the same rows"
    return evidence.call("configure", why, changes=changes_to(evidence.config, run), reason=reason)


def changes_to(config: TrainingConfig, run: RunEvidence) -> dict[str, Any]:
    """Return the changes that make a configuration the run's: single keys, or a section of which keys are gone."""
    other = run.directory.specification().config
    before, after = (flatten(one.model_dump(mode="json")) for one in (config, other))
    gone = {key.partition(".")[0] for key in before.keys() - after.keys()}
    given = other.model_dump(mode="json", exclude_unset=True)
    single = {key: value for key, value in after.items() if before.get(key) != value}
    single = {key: value for key, value in single.items() if key.partition(".")[0] not in gone}
    return single | {name: given[name] for name in sorted(gone) if name in given}


def _ablations(evidence: Evidence) -> list[RunEvidence]:
    """Return the completed ablations outside of studies, by the order of their start."""
    started = evidence.facts.started.values()
    names = [one.run_id for one in started if one.kind == RunKind.ABLATION and one.study is None]
    return [run for name in names if (run := evidence.run(name)) is not None and run.is_complete]


def _beside(run: RunEvidence, baseline: str) -> dict[str, Any]:
    beside = run.evaluation.beside if run.evaluation is not None else {}
    found: dict[str, Any] = beside.get("splits", {}).get("validation", {}) if beside.get("run_id") == baseline else {}
    return found


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
