"""Check of a completed study: its rows and its ledger entry against the sealed runs of its trials (PHASE-5).

`tuning_results.md` prints the rows. They are compared here under the lock under which it is written, so that rows
edited for the moment of the gate reach no report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import measure_improvement
from trainwright.tools.gates.releases import other_than_planned
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger import seal_differences
from trainwright.tools.ledger.rows import removed
from trainwright.tools.workspace.tables import Study, Trial
from trainwright.trainer.config import SearchSection, apply_changes, config_digest, parse_config
from trainwright.trainer.config.search import ObjectiveSection
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Resolved
from trainwright.trainer.run.results import Probe

COLUMNS = ("search", "objective", "base_config_digest", "state", "confirmation")
COMPLETED, PRUNED = "completed", "pruned"


def epoch_values(directory: RunDirectory, metric: str) -> dict[int, float]:
    """Return the run's validation metric by epoch. An epoch that a resumed run repeated counts once."""
    values: dict[int, float] = {}
    for event in directory.events("epoch"):
        value = (event.data.get("validation") or {}).get(metric)
        if isinstance(value, int | float):
            values[int(event.data["epoch"])] = float(value)
    return dict(sorted(values.items()))


def best_value(values: Mapping[int, float], direction: str) -> float | None:
    """Return the best of the epochs' finite values, or None when there is none."""
    best = max if direction == "maximize" else min
    return best((value for value in values.values() if math.isfinite(value)), default=None)


def study_differences(evidence: Evidence) -> list[str]:
    """Return one sentence for every difference of the completed study's rows, or its entry, from its runs.

    A study that has not completed claims nothing yet. Raises ConfigurationError for parameters that are none.
    """
    study = evidence.study
    bodies = [body for _, body in evidence.entries("study") if study is not None and body["study_id"] == study.id]
    if study is None or not bodies or bodies[-1]["state"] != COMPLETED:
        return []
    recorded = {name: body[name] for body in bodies for name in COLUMNS if name in body}
    if changed := _changed_rows(evidence, study.id):
        return changed
    bounds: dict[str, Any] = next((body["bounds"] for body in bodies if body.get("bounds")), {})
    if differing := bound_differences(evidence, recorded["search"], bounds):
        return [f"study {study.id}: {what}" for what in differing]
    return [f"study {study.id}: {what}" for what in _against_runs(evidence, recorded, bodies[-1]["trials"])]


def _changed_rows(evidence: Evidence, study_id: str) -> list[str]:
    """Return the differences of the rows of the study and its trials from its entries."""
    session, recorded = evidence.session, evidence.facts.rows
    rows = [*session.scalars(select(Study).where(Study.id == study_id))]
    trials = [*session.scalars(select(Trial).where(Trial.study == study_id).order_by(Trial.number))]
    found = [what for row in (*rows, *trials) for what in recorded.differences(row)]
    return found + removed(recorded.of(Study, id=study_id), rows) + removed(recorded.of(Trial, study=study_id), trials)


def _against_runs(evidence: Evidence, recorded: dict[str, Any], trials: list[dict[str, Any]]) -> list[str]:
    """Derive every trial's values, the best of them and the confirmation's figures from the runs."""
    objective, confirmation = recorded["objective"], recorded["confirmation"]
    further = SearchSection.model_validate(recorded["search"]).objectives
    found = [
        f"trial {line['number']}: {what}"
        for line in trials
        if (what := _against_run(evidence, line, objective, further))
    ]
    competing = [line for line in trials if line["state"] == COMPLETED and line["value"] is not None]
    competing = [line for line in competing if keeps_bounds(line.get("further", {}), further)]

    def rank(line: dict[str, Any]) -> tuple[tuple[float, ...], int]:
        return place(line["value"], line.get("further", {}), objective["direction"], further), line["number"]

    best = min(competing, key=rank, default=None)
    chosen = {"number": "best_trial", "parameters": "best_parameters", "value": "best_value"}
    if best is None or any(best[key] != confirmation[name] for key, name in chosen.items()):
        found.append(f"trial {confirmation['best_trial']} was confirmed, and is not the best one")
    measured, _ = measure_improvement(evidence)  # problems in measuring it are reported by another check
    return found + [
        f"its confirmation tells {name} otherwise than its runs"
        for name in measured
        if not same_figures(measured[name], confirmation.get(name))
    ]


def _against_run(
    evidence: Evidence, line: dict[str, Any], objective: dict[str, str], objectives: Sequence[ObjectiveSection]
) -> str:
    """Return a trial's difference from its run; empty if none. A failed trial claims nothing."""
    if line["state"] not in {COMPLETED, PRUNED}:
        return ""
    run = evidence.run(line["run"] or "")
    if run is None:
        return f"there is no run {line['run']}"
    if differing := _record_problems(evidence, run, line["state"]):
        return differing[0]
    specification = run.directory.specification()
    expected = config_digest(parse_config(apply_changes(evidence.version.values, line["parameters"])))
    if config_digest(specification.config) != expected or specification.max_steps is not None:
        return f"run {run.id} did not train its parameters"
    values = epoch_values(run.directory, objective["metric"])
    kept = {int(epoch): value for epoch, value in line.get("intermediate", {}).items()}
    best = best_value(values, objective["direction"]) if line["state"] == COMPLETED else None
    same = line["value"] == best and all(values.get(epoch) == value for epoch, value in kept.items())
    if line["state"] == COMPLETED:
        finite = {epoch: value for epoch, value in values.items() if math.isfinite(value)}
        further = further_values(run.directory, finite, objective["direction"], objectives)
        same = same and line.get("further", {}) == further
    return "" if same else f"run {run.id} recorded other values"


def _record_problems(evidence: Evidence, run: RunEvidence, state: str) -> list[str]:
    """Return the problems of a trial's run as evidence. A pruned one may never have ended in order."""
    seal = evidence.facts.seals.get(run.id)
    if state == COMPLETED and (seal is None or seal.state != COMPLETED):
        return [f"run {run.id} has not completed"]
    changed = seal_differences(run.directory, seal.digests, evidence.inspection, seal.problem) if seal else []
    seen = not other_than_planned(evidence, run)
    other = [] if seen else [f"run {run.id} saw other data, code or packages than planning approved"]
    return evidence.facts.rows.differences(run.row) + changed + (other if state == COMPLETED else [])


def same_figures(one: Any, other: Any) -> bool:
    """Whether two results agree; derived figures may differ in their last digits by the library."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_figures(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_figures, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == other)


# Ends of a search's ranges, from what a probe measured: a pure function of its sealed record (TUNE-6).

RANGE_TEST, BATCH_SIZE_FINDER = "range_test", "batch_size_finder"
AROUND = 10.0
"""A range of learning rates reaches so many times below and above the suggested one: to the smoothed loss's minimum."""
HALVINGS = 2
"""Batch sizes below the configured one that are searched too: what fits, fits in a smaller batch."""


def found_range(probe: Probe, source: str, type_: str, configured: int) -> tuple[dict[str, Any], str]:
    """Return the range that a probe's test gives, or an empty one and why there is none.

    Learning rates: from the tenth of the suggested one to the rate at the loss's minimum, ten times it, on a
    logarithmic scale (Smith 2017, "Cyclical Learning Rates for Training Neural Networks": above it the loss rises).
    Batch sizes: from a quarter of the configured one to the largest that fitted and gave more throughput.

    Args:
        type_: of the range: `float`, `int` or `categorical`.
        configured: the configuration's batch size.
    """
    if source == RANGE_TEST:
        peak = probe.learning_rate.suggested
        if peak is None:
            return {}, probe.learning_rate.why or "it measured no learning rates"
        low, high = (float(f"{end:.3g}") for end in (peak / AROUND, peak * AROUND))
        return {"type": "float", "low": low, "high": high, "log": True}, ""
    largest = probe.batch_size.suggested
    if largest is None:
        return {}, probe.batch_size.why or "it measured no batch sizes"
    fitted = [int(one["batch_size"]) for one in probe.batch_size.tried if "samples_per_second" in one]
    sizes = {configured >> times for times in range(HALVINGS + 1)} | {size for size in fitted if size <= largest}
    choices = sorted(size for size in sizes if size >= 1)
    if len(choices) < 2:
        return {}, f"only a batch size of {choices[0]} is left to search"
    if type_ == "int":
        return {"type": "int", "low": choices[0], "high": choices[-1], "log": True}, ""
    return {"type": "categorical", "choices": choices}, ""


def bound_differences(evidence: Evidence, search: dict[str, Any], bounds: dict[str, Any]) -> list[str]:
    """Return one sentence for every range that is not what its probe gives.

    Args:
        search: a study's recorded search.
        bounds: {key: {from, probe}} of its ledger entry.
    """
    found = []
    for key, bound in bounds.items():
        run, range_ = evidence.run(str(bound["probe"])), search["space"].get(key)
        seal = evidence.facts.seals.get(run.id) if run is not None else None
        if run is None or seal is None or range_ is None:
            found.append(f"the bounds of {key} are said to come from {bound['probe']}, which did not measure them")
            continue
        changed = seal_differences(run.directory, seal.digests, evidence.inspection, seal.problem)
        configured = run.directory.specification().config.loader.batch_size
        given, why = found_range(run.part(Probe), bound["from"], range_["type"], configured)
        if changed or why or any(range_.get(name) != value for name, value in given.items()):
            found.append(f"the bounds of {key} are not those that {run.id} gives{f': {changed[0]}' if changed else ''}")
    return found


# Further objectives of a study: their values by a trial's run, the bounds of the best trial, and the Pareto front.
#
# A trial's objectives are read at one epoch, that of the goal's best value: that epoch's weights are the trial's.

MEASURED: dict[str, Callable[[RunDirectory], float]] = {
    "parameters": lambda directory: float(directory.part(Resolved).parameters),
}
"""What the server knows of a run beside its metrics, and what is the same each time: no seconds, which are not."""


def further_values(
    directory: RunDirectory, goal: Mapping[int, float], direction: str, objectives: Sequence[ObjectiveSection]
) -> dict[str, float]:
    """Return each further objective's value at the epoch of the goal's best; one without a finite value is missing.

    Args:
        goal: the goal's metric by epoch.
        direction: of the goal.
    """
    sign = -1.0 if direction == "maximize" else 1.0
    epoch = min((at for at in goal if math.isfinite(goal[at])), key=lambda at: (sign * goal[at], at), default=None)
    reported: dict[str, Any] = {}
    if any(one.metric not in MEASURED for one in objectives):
        for event in directory.events("epoch"):  # an epoch that a resumed run repeated counts once
            if event.data.get("epoch") == epoch:
                reported = event.data.get("validation") or {}
    found = {}
    for one in objectives:
        value = MEASURED[one.metric](directory) if one.metric in MEASURED else reported.get(one.metric)
        if isinstance(value, int | float) and math.isfinite(value):
            found[one.metric] = float(value)
    return found


def place(
    value: float, further: Mapping[str, float], direction: str, objectives: Sequence[ObjectiveSection]
) -> tuple[float, ...]:
    """Return a trial's place among those that keep the bounds, least first: by the goal, then by the others.

    So of trials with one value of the goal, which few validation rows make common, the best is never a dominated one.
    """
    signs = {one.metric: -1.0 if one.direction == "maximize" else 1.0 for one in objectives}
    rest = (signs[one.metric] * further.get(one.metric, math.inf * signs[one.metric]) for one in objectives)
    return (-value if direction == "maximize" else value, *rest)


def keeps_bounds(values: Mapping[str, float], objectives: Sequence[ObjectiveSection]) -> bool:
    """Return whether a trial's further objectives are within the bounds of the search."""
    return not any(exceeded(values, one) for one in objectives)


def exceeded(values: Mapping[str, float], objective: ObjectiveSection) -> float:
    """Return by how much a value lies outside an objective's bounds; infinity where it is missing and has bounds."""
    value = values.get(objective.metric)
    low, high = objective.at_least, objective.at_most
    if value is None:
        return math.inf if low is not None or high is not None else 0.0
    return max(0.0, low - value if low is not None else 0.0, value - high if high is not None else 0.0)


def front(points: Mapping[int, Sequence[float]], directions: Sequence[str]) -> list[int]:
    """Return the keys of the points that no other dominates, in the order of the first objective, best first.

    A point dominates another that it is nowhere worse than, and somewhere better. Of equal points all are on the front.
    """
    signs = [-1.0 if direction == "maximize" else 1.0 for direction in directions]
    least = {key: [sign * value for sign, value in zip(signs, point, strict=True)] for key, point in points.items()}
    found = [key for key, point in least.items() if not any(_dominates(other, point) for other in least.values())]
    return sorted(found, key=lambda key: (least[key], key))


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
