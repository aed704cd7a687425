"""Exits of a gate: accepted by the owner, or concluded below the goal on its grounds.

The owner's acceptance is a grant; concluding is the agent's choice of an exit and claims nothing: the validated
configuration is finalized, else the baseline's, and every report says at its head that the goal was not reached.
"""

from __future__ import annotations

from typing import Any, Literal

from trainwright.tools.gates.cures import fixes_exhausted
from trainwright.tools.gates.figures import NOT_EVALUATED
from trainwright.tools.gates.finals import is_as_accepted
from trainwright.tools.gates.improvement import confirmed_value, told_separated
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.gates.searches import unused_keys
from trainwright.tools.gates.shown import (
    certified_figure,
    interval_text,
    is_beyond,
    is_shown,
    meets,
    over_seeds,
    rows_to_show,
)
from trainwright.tools.gates.studies import ended_studies, studies_under_way
from trainwright.tools.limits import Amounts
from trainwright.tools.owner.grants import accepted_values, by_whom, granting

UNITS = {"wall_clock_seconds": ("s", 1.0), "gpu_hours": ("GPU hours", 1.0), "money": ("of money", 1.0),
         "disk_bytes": ("MB", 1e6)}  # fmt: skip


def spent_limit(evidence: Records) -> str:
    """Return which limit leaves no room for a trial like the baseline, with both figures; empty where all leave it.

    The reservations of runs under way are released when they end, and count as left.
    """
    if evidence.trials_left < 1:
        return "no trial is left of the limits"
    if evidence.baseline is None:
        return ""
    table = evidence.limit_lines
    seal = evidence.facts.seals.get(evidence.baseline.id)
    needed = Amounts.model_validate(seal.used if seal else {})
    for name, (unit, scale) in UNITS.items():
        line = min(table[name], key=lambda line: line.allowed - line.used)
        left, least = line.allowed - line.used, getattr(needed, name)
        if left < least:
            took = f"the baseline took {least / scale:.3g}"
            return f"{max(left, 0.0) / scale:.3g} {unit} are left of {line.name}, and {took}"
    return ""


Exit = Literal["passed", "skipped", "accepted", "concluded"]


def baseline_value(evidence: Records) -> float | None:
    """Return the goal's metric at the baseline's best epoch."""
    return evidence.baseline.best_value(evidence.goal_metric) if evidence.baseline is not None else None


def improvement_validated(evidence: Records) -> bool:
    """Return whether the study's improvement over the baseline is above the spread over seeds."""
    if evidence.study is None or evidence.study.state != "completed":
        return False
    return evidence.improvement[0].get("validated") is True


def takes_best(evidence: Records) -> bool:
    """Return whether the configuration to finalize is the study's best: validated, or concluded with seeds apart.

    Once concluded, the decision tells; one that was made before this rule took the baseline's.
    """
    if improvement_validated(evidence):
        return True
    if not told_separated(evidence.improvement[0]):
        return False
    if evidence.concludes:
        return exit_of(evidence) == "concluded" and evidence.takes_separated
    decided = [body for _, body in evidence.decisions if body["phase"] == "optimization"]
    accepted = [body for body in decided if body["outcome"] != "refused"]
    under = accepted[-1].get("circumstances", {}) if accepted and accepted[-1]["outcome"] == "concluded" else {}
    return under.get("takes_separated") is True


def is_accepted(evidence: Records, value: float | None) -> bool:
    """Return whether the owner accepts a value of the goal's metric: it, or a worse one, was granted."""
    sign = 1.0 if evidence.goal["direction"] == "maximize" else -1.0
    return value is not None and any(sign * value >= sign * least for least in accepted_values(evidence.grants))


def exit_of(evidence: Records) -> Exit | None:
    """Return how optimization ends by the present evidence; None where a search has still to show an improvement."""
    if improvement_validated(evidence):
        return "passed"
    value = baseline_value(evidence)
    if evidence.reaches_goal(value):
        return "skipped"
    if is_accepted(evidence, value):
        return "accepted"
    return "concluded" if evidence.concludes and grounds(evidence) else None


def is_improved_below_goal(evidence: Records) -> bool:
    """Return whether a search has shown an improvement that still misses the goal, which the owner does not accept."""
    if exit_of(evidence) != "passed":
        return False
    value = reached(evidence, Phase.OPTIMIZATION)
    return not evidence.reaches_goal(value) and not is_accepted(evidence, value)


def grounds(evidence: Records) -> str:
    """Return the grounds to conclude below the goal; empty where a search must come first, or is under way."""
    if studies_under_way(evidence):
        return ""
    ended = ended_studies(evidence)
    if ended:
        return f"{len(ended)} {'study' if len(ended) == 1 else 'studies'} ended: {ended[-1]}"
    if evidence.spent:
        return evidence.spent
    if exhausted := fixes_exhausted(evidence):
        return exhausted
    unused = unused_keys(evidence)
    return f"a search could change nothing: the run makes no use of {', '.join(unused)}" if unused else ""


def ending(evidence: Records, phase: Phase) -> dict[str, Any]:
    """Return a decision's record of the goal: both goals, the value reached, and the grounds to end below it.

    Returns:
        goal {metric, direction, target}; original_target where the owner revised it; reached; met; judged: the figures
        that the goal is held to, with their intervals; missed_on_test, the test value, where validation rows alone
        reach the goal; refuted: how the exported program contradicts a reported value; accepted_by where the owner
        accepts the value; concluded: the grounds; certified: False where the training process alone measured it.
    """
    value = reached(evidence, phase)
    found: dict[str, Any] = {"goal": evidence.goal, "reached": value, "met": evidence.reaches_goal(value)}
    if evidence.goal != evidence.project.goal:
        found["original_target"] = evidence.project.goal["target"]
        found["revised_by"] = granting(evidence.answers, evidence.settings, "goal")
    tested = evidence.export.tested_metrics() if phase is Phase.FINALIZATION and evidence.export is not None else {}
    if found["met"] and evidence.goal_metric in tested and not evidence.reaches_goal(tested[evidence.goal_metric]):
        found["missed_on_test"] = tested[evidence.goal_metric]
    if not found["met"] and is_accepted(evidence, value):
        found["accepted_by"] = granting(evidence.answers, evidence.settings, "acceptance")
    if phase is Phase.OPTIMIZATION and exit_of(evidence) == "concluded":
        found["concluded"] = grounds(evidence)
    if value is not None and is_reported_alone(evidence, phase):
        found["certified"] = False
        found |= _refuted(evidence, phase)
    judged = _judged(evidence, phase)
    return found | ({"judged": judged} if judged else {})


def _runs_of(evidence: Records, phase: Phase) -> list[RunRecords]:
    """Return the complete runs of which the goal's value is, the one that counts first."""
    runs = [evidence.export, evidence.final] if phase is Phase.FINALIZATION else [evidence.baseline]
    return [run for run in runs if run is not None and run.is_complete]


def _judged(evidence: Records, phase: Phase) -> dict[str, dict[str, Any]]:
    """Return {value, interval, of} of the mean over seeds, and of validation and test, those there are."""
    metric, side = evidence.goal_metric, "best" if takes_best(evidence) else "baseline"
    is_final = phase is Phase.FINALIZATION
    is_laid_over = is_final and evidence.final is not None and not is_as_accepted(evidence, evidence.final)
    runs = _runs_of(evidence, phase) if is_final or side == "baseline" else []
    own = [figure for run in runs if (figure := certified_figure(run, "validation", metric))]
    found = {
        "seeds": {} if is_laid_over else over_seeds(evidence, side),
        "validation": own[0] if own else {},
        "test": certified_figure(evidence.export, "test", metric) if is_final else {},
    }
    return {name: figure for name, figure in found.items() if figure}


def _refuted(evidence: Records, phase: Phase) -> dict[str, str]:
    """Return what the exported program gives in place of a value that its process alone reported."""
    told = [one for run in _runs_of(evidence, phase) if run.evaluation for one in run.evaluation.differences]
    return {"refuted": told[0]} if told else {}


def is_reported_alone(evidence: Records, phase: Phase) -> bool:
    """Return whether no program gives the value that was reached, though runs of this version export one."""
    if phase is not Phase.FINALIZATION and takes_best(evidence):
        return evidence.improvement[0].get("certified") is False
    evaluated = [run for run in _runs_of(evidence, phase) if run.evaluation is not None]
    return bool(evaluated) and not any(evidence.goal_metric in run.certified() for run in evaluated)


def reached(evidence: Records, phase: Phase) -> float | None:
    """Return the goal's metric of the final run, and before it of the chosen configuration."""
    if phase is Phase.FINALIZATION:
        return evidence.final_value(evidence.goal_metric)
    if takes_best(evidence):
        return confirmed_value(evidence)[1]
    return baseline_value(evidence)


def verdict(evidence: Records, phase: Phase) -> str:
    """Return the first sentence of every report: `Goal not reached: 0.81 of 0.9 (validation accuracy)`."""
    return worded(ending(evidence, phase))


def worded(end: dict[str, Any]) -> str:
    """Describe a decision's record of the goal."""
    goal, judged = end["goal"], end.get("judged", {})
    figure = judged.get("seeds") or judged.get("validation") or {}
    value = figure.get("value", end["reached"])
    met, why = _held(end, value)
    shown = "not measured" if value is None else f"{value:.6g}"
    of = f"; {interval_text(figure)}" if figure else ""
    better = "lower" if goal["direction"] == "minimize" else "higher"
    sentence = f"Goal {met}: {shown} of {goal['target']:g} (validation {goal['metric']}, {better} is better{of}){why}"
    if "seeds" in judged and end["reached"] is not None and f"{end['reached']:.6g}" != shown:
        sentence += f"; the run's own {end['reached']:.6g}"
    if end.get("certified") is False:
        sentence += f"; {NOT_EVALUATED}"
    if "original_target" in end:
        sentence += f"; revised from {end['original_target']:g}{by_whom(end['revised_by'])}"
    if "accepted_by" in end:
        sentence += f"; accepted{by_whom(end['accepted_by'])}"
    below = "" if end["met"] else " below it"
    return f"{sentence}; concluded{below}: {end['concluded']}" if "concluded" in end else sentence


def _held(end: dict[str, Any], value: float | None) -> tuple[str, str]:
    """Return how a goal stands, in a few words, and what else decides it.

    Args:
        end: the decision's record.
        value: the one that the goal is held to; the record's own has decided the gate.
    """
    goal, judged, missed = end["goal"], end.get("judged", {}), end.get("missed_on_test")
    tested = judged.get("test", {})
    beside = f"; test {tested['value']:.6g}, {interval_text(tested)}" if tested else ""
    if "refuted" in end:
        return "not reached", f"; refuted by its own program: {end['refuted']}"
    if not (end["met"] if "seeds" not in judged else meets(goal, value)):
        return "not reached", ""
    figure = judged.get("seeds") or judged.get("validation") or {}
    is_contradicted = value is not None and bool(tested) and is_beyond(goal, {**figure, "value": value}, tested)
    if is_contradicted and not is_shown(goal, tested):
        return "not confirmed by the test", f"; MISSED on test: {missed:.6g}" if missed is not None else beside
    if missed is not None:
        return "reached on validation alone", f"; MISSED on test: {missed:.6g}"
    short = [one for one in (figure, tested) if one and not is_shown(goal, one)]
    if not short or (tested and tested not in short):  # rows that no choice was made by show it alone
        worse = ": worse than validation beyond chance" if is_contradicted else ""
        return "reached", f"{beside}{worse}" if short or worse else ""
    rows = [rows_to_show(goal, one) for one in short]
    needed = [one for one in rows if one is not None]
    units = {one.get("unit", "rows") for one in short}
    # None where a figure is so near to the goal that no number is told.
    is_told = len(needed) == len(rows) and len(units) == 1
    unit = units.pop()
    these, more = (unit, unit) if unit == "episodes" else ("rows", f"held-out {unit}")
    return (
        f"reached on these {these}",
        f"{beside}; that it is reached on others is not shown"
        + f": about {max(needed, default=0)} {more} would show it" * is_told,
    )
