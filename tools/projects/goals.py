"""Goal of a project: what it may be, the configuration that goes by it, and how it changes while no result counts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.results import first_result
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import GoalChanged
from trainwright.trainer.base.errors import ConfigurationError, near
from trainwright.trainer.catalog.names import BUILT_IN
from trainwright.trainer.clean_room.names import WORST
from trainwright.trainer.config import MergedConfig, TrainingConfig, merge_changes
from trainwright.trainer.config.cross_rules import without_the_trainers
from trainwright.trainer.config.goal import (
    EXAMPLE,
    MAXIMIZE,
    MEASURED,
    corrected_goal,
    goal_problem,
    is_raised,
    nearest_goal,
)
from trainwright.trainer.config.goal_words import any_of, spoken_goals
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN as METRICS
from trainwright.trainer.metrics import near_metrics
from trainwright.trainer.run import RunKind

ON_TEST = any_of(
    r"unseen|(?:not|never|n't) (?:been )?(?:seen|used)|held[- ]?out|used for nothing|honest\w*|in no part of"
    r"|test (?:set|split|rows|data)|ungesehen\w*|nie gesehen\w*|ehrlich\w*|testdaten"
)
"""Words for rows that nothing was chosen by."""
METRIC = re.compile(r"[A-Za-z0-9_./-]{1,64}")
OBJECTIVE_METRICS = {
    "adversarial": ("robust_loss", "robust_accuracy"),
    "contrastive": ("linear_probe_accuracy", "neighbour_accuracy"),
}
"""Metrics that an objective measures by itself; multi_task does so for each of its tasks."""


def check_goal(goal: dict[str, Any]) -> None:
    """Refuse a goal that is not complete, or cannot be meant. Raises ConfigurationError."""
    target: Any = goal.get("target")
    metric: Any = goal.get("metric")
    is_number = isinstance(target, int | float) and not isinstance(target, bool) and math.isfinite(target)
    whole = set(goal) == {"metric", "direction", "target"} and isinstance(metric, str) and metric != ""
    meant = nearest_goal(goal)
    if not (whole and is_number and goal["direction"] in {"minimize", "maximize"}):
        raise _no_goal(f"The goal {str(goal)[:200]} is not complete.", meant, f"Give goal={json.dumps(EXAMPLE)}.")
    if not METRIC.fullmatch(metric):
        raise _no_goal(
            f"goal.metric {metric[:80]!r} is not the name of a metric.",
            None,
            "Use 1 to 64 of A-Z, a-z, 0-9, '_', '.', '-' and '/'.",
        )
    reason = goal_problem(goal)
    if reason is not None:
        can_be = meant is not None and goal_problem(meant) is None
        ask = "Ask the user from which value on it is of use."
        raise _no_goal(f"The goal cannot be meant: {reason}.", meant if can_be else None, ask)


def _no_goal(message: str, meant: dict[str, Any] | None, otherwise: str) -> ConfigurationError:
    """Return the error with the goal that is meant, or else with what to do."""
    remedy = f"Give goal={json.dumps(meant)}." if meant else otherwise
    return ConfigurationError(message, remedy=remedy, details={"amend": {"goal": meant}} if meant else {})


def other_than_said(intent: str, goal: dict[str, Any]) -> list[str]:
    """Return the sentence on a goal whose metric is another than the intent names; none where it names none, or it."""
    named = [one for one in spoken_goals(intent).named if one.target is not None]
    metrics = {name for one in named for name in (one.word.metric, *(one.word.near if one.word.metric else ()))}
    metrics |= {f"{WORST}{name}" for name in metrics}  # of each target at least so much
    is_own = goal["metric"] not in MEASURED
    if is_own:  # "0.8 of them right" may be what the user's function measures, and names no metric
        named = [one for one in named if not one.word.needs_number]
    if not named or goal["metric"] in metrics or (None in metrics and is_own):
        return []
    said = " and ".join(one.word.name if one.word.needs_number else one.words for one in named)
    return [f"the intent names {said}, and the goal is in {goal['metric']}, which is another metric: ask the user"]


def bound_of_test(intent: str, goal: dict[str, Any], config: TrainingConfig) -> dict[str, Any]:
    """Return the changes that require the goal of the test split too; empty where the intent asks for no such rows.

    Where it does, nobody but the user can say whether a release shall depend on them: of few test rows chance decides.
    """
    bounded = config.evaluation_gate.metrics() if config.evaluation_gate is not None else []
    has_test = config.data is None or config.data.split.test > 0 or config.data.split.by == "given"
    if not (has_test and ON_TEST.search(intent)) or any(name.startswith("test/") for name in bounded):
        return {}
    side = "minimum" if goal["direction"] == "maximize" else "maximum"
    return {f"evaluation_gate.{side}": {f"test/{goal['metric']}": goal["target"]}}


def unbounded_test(intent: str, goal: dict[str, Any], config: TrainingConfig) -> list[str]:
    """Return what the test split decides, and how the goal is required of it, where the intent asks for such rows."""
    changes = bound_of_test(intent, goal, config)
    return [
        "the goal is judged on validation, by which the best epoch is chosen; the test split's figure is told with its "
        f"interval, and closes no gate unless configure(changes={changes}) does so before the first run"
    ] * bool(changes)


def settled_for(config: dict[str, Any], template: dict[str, Any], goal: dict[str, Any]) -> MergedConfig:
    """Return the configuration that selects by the goal's metric, and computes it where it is not the loss.

    Raises:
        ConfigurationError: the configuration is broken, measures no such metric, or selects by another one.
    """
    template = without_the_trainers(template) if config.get("trainer") else template
    settled = merge_changes(config, template, argument="config", nested=True)
    selection = {"metric": goal["metric"], "direction": goal["direction"]}
    asked = {key: value for key, value in settled.changes.items() if key.startswith("selection.")}
    if any(value != selection[key.partition(".")[2]] for key, value in asked.items() if value is not None):
        rest = {key: value for key, value in settled.changes.items() if key not in asked}
        raise ConfigurationError(
            f"`selection` is the goal's ({goal['direction']} {goal['metric']}), and the configuration has {asked}.",
            remedy="Leave selection out, or give the goal that metric and direction.",
            details={"amend": {"config": rest}},
        )
    values = {**settled.values, "selection": selection}
    metrics = list(values.get("metrics") or [])
    used = [metric if isinstance(metric, str) else metric.get("use", "") for metric in metrics]
    named = [metric.split(":")[-1] for metric in used]  # of the user's: the function
    given = (
        "task" in values
        or "trainer" in values
        or goal["metric"] == "loss"
        or _measured_by_objective(goal["metric"], values)
    )
    if not given and goal["metric"] not in named:
        _require_one_task(goal, values)
        _require_built_in(goal, named)
        values["metrics"] = [goal["metric"], *metrics]
    again = merge_changes({}, values, argument="config", nested=True)
    _require_loss_of(goal["metric"], again.config, config)
    return replace(again, changes=settled.changes, notes=settled.notes)


def _require_one_task(goal: dict[str, Any], values: dict[str, Any]) -> None:
    """Refuse a goal in a metric of no task, where each task has its own."""
    tasks = (values.get("objective") or {}).get("tasks")
    if not isinstance(tasks, dict) or goal["metric"] not in BUILT_IN["metrics"]:
        return
    measured = [f"{name}_{goal['metric']}" for name, task in tasks.items() if goal["metric"] in task.get("metrics", ())]
    amended = {**goal, "metric": (measured or [f"{next(iter(tasks))}_{goal['metric']}"])[0]}
    raise ConfigurationError(
        f"goal.metric {goal['metric']!r} is of one target, and multi_task measures each task's own: "
        f"{', '.join(measured) or 'none of its tasks has it under metrics'}.",
        remedy=f"Give goal={json.dumps(amended)}{'' if measured else ' and that task the metric'}, the others as "
        "evaluation_gate.minimum or maximum. For one figure over columns of numbers leave objective out: one target of "
        "several columns with loss mse, of which r2 is the mean over columns.",
        document="configs/objectives.md",
        details={"amend": {"goal": amended}} if measured else {},
    )


def _require_built_in(goal: dict[str, Any], named: list[str]) -> None:
    """Refuse a goal whose metric neither is built in nor is listed under `metrics`."""
    metric, built_in = goal["metric"], BUILT_IN["metrics"]
    if metric in built_in:
        return
    _refuse_test_split(goal)
    meant = near_metrics(metric, built_in) or near(metric, named)
    nearest = nearest_goal({**goal, "metric": meant[0]}) if meant else None
    fitting = [name for name in (*built_in, "loss") if MEASURED[name][0] == goal["direction"]]
    fitting.sort(key=lambda name: not name.startswith(metric))  # those that the word could mean come first
    first = f"Give goal={json.dumps(nearest)}, or " if nearest else "Choose one of these, or give "
    raise ConfigurationError(
        f"goal.metric {metric!r} is not measured. Built in to {goal['direction']}: {', '.join(fitting)}; your own "
        "goes under `metrics`.",
        remedy=f'{first}config={{"metrics": [{{"use": "file.py:{metric}"}}]}} besides.',
        document="configs/metrics.md",
        details={"amend": {"goal": nearest}} if nearest else {},
    )


def _refuse_test_split(goal: dict[str, Any]) -> None:
    """Refuse a goal on the test rows: they are looked at once, behind every decision, and the gate can bound them."""
    split, _, bare = goal["metric"].partition("/")
    if split != "test" or bare not in MEASURED:
        return
    side = "minimum" if goal["direction"] == MAXIMIZE else "maximum"
    bound = {"evaluation_gate": {side: {goal["metric"]: goal["target"]}}}
    raise ConfigurationError(
        f"A goal is judged on validation rows, and {goal['metric']!r} is of the test rows, which decide nothing.",
        remedy=f"Give the goal in {bare}, and what must hold on test as a bound of the last gate: "
        f"config={json.dumps(bound)}.",
        details={"amend": {"goal": {**goal, "metric": bare}}},
    )


def _require_loss_of(metric: str, settled: TrainingConfig, config: dict[str, Any]) -> None:
    """Refuse a goal's metric that says nothing of what the loss trains: mae beside cross_entropy."""
    of_data = settled.data is not None and settled.returns in {None, "output"} and not settled.objective.replaces
    loss = LOSSES.get(settled.loss if isinstance(settled.loss, str) else settled.loss.use)
    if not of_data or loss is None or metric not in METRICS or METRICS[metric].fits(loss.task, None):
        return
    fitting = [name for name, one in LOSSES.items() if METRICS[metric].fits(one.task, None)]
    fix: dict[str, Any] = {"loss": fitting[0]}
    task = LOSSES[fitting[0]].task
    names = {one if isinstance(one, str) else one.use: one for one in settled.metrics}
    kept = [one for name, one in names.items() if name not in METRICS or METRICS[name].fits(task, None)]
    if len(kept) < len(names):
        fix["metrics"] = [one if isinstance(one, str) else one.model_dump(mode="json") for one in kept]
    raise ConfigurationError(
        f"The goal is in {metric}, which is for {' or '.join(METRICS[metric].tasks)}, and loss {loss.name} is for "
        f"{loss.task}.",
        remedy=f"Give config={json.dumps(fix)} besides ({', '.join(fitting[:4])}), or a goal in one of "
        f"{', '.join(name for name, one in METRICS.items() if one.fits(loss.task, None))}.",
        document="configs/losses.md",
        details={} if "loss" in config else {"amend": {"config": {**config, **fix}}},
    )


@contextmanager
def of_changes(changes: dict[str, Any]) -> Iterator[None]:
    """Word what a goal is refused with as create_project takes it as the changes of `configure`, those asked for too.

    Raises ConfigurationError.
    """
    try:
        yield
    except ConfigurationError as error:
        amend = error.details.get("amend") or {}
        asked = {"goal": amend["goal"]} if "goal" in amend else {}
        if not asked | amend.get("config", {}) or "changes" in amend:
            error.remedy = error.remedy.replace("config={", "changes={")
            raise
        kept = {key: value for key, value in changes.items() if not (asked and key.split(".")[0] == "goal")}
        whole = {**kept, **asked, **amend.get("config", {})}
        error.remedy = f"The same call with changes={json.dumps(whole)}; what it changes is the user's to decide."
        error.details["amend"] = {"changes": whole}
        raise


def _measured_by_objective(metric: str, values: dict[str, Any]) -> bool:
    """Return whether the objective measures the metric on validation by itself, so that `metrics` cannot name it."""
    objective = values.get("objective")
    if not isinstance(objective, dict):
        return False
    tasks = objective.get("tasks")
    if objective.get("name") == "multi_task" and isinstance(tasks, dict):
        return any(metric.startswith(f"{task}_") for task in tasks)
    return metric in OBJECTIVE_METRICS.get(str(objective.get("name")), ())


def changed_goal(evidence: Evidence, named: dict[str, Any]) -> dict[str, Any]:
    """Return the goal that a change names, over the present one.

    A goal may be raised at any time, and be changed in any way before a result counts. What would make it easier to
    reach after that, or another metric, is the owner's to decide.

    Raises:
        ConfigurationError: it is no goal, or only the owner may change it so.
    """
    present = evidence.goal
    if not named:
        return present
    parts = {key.partition(".")[2]: value for key, value in named.items() if "." in key}
    whole = next((value for key, value in named.items() if "." not in key), None)
    asked = whole if isinstance(whole, dict) else {} if whole is None else {"target": whole}
    given, _ = corrected_goal({**asked, **parts}, evidence.version.values)
    if given.get("metric", present["metric"]) != present["metric"]:
        given.setdefault("direction", MEASURED.get(given["metric"], (present["direction"],))[0])
    goal = {**present, **given}
    check_goal(goal)
    is_owners = any(grant.kind == "goal" for grant in evidence.grants)
    if goal != present and is_owners:
        raise _fixed(present, goal, "the owner has revised it")
    if not is_raised(present, goal) and (result := first_result(evidence)) is not None:
        raise _fixed(present, goal, f"{result} is a result")
    return goal


def met_by_the_smoke_run(evidence: Evidence) -> list[str]:
    """Return the sentence on a goal that a few steps reach already; none once a result counts."""
    run = evidence.newest(RunKind.SMOKE)
    if run is None or run.summary is None or first_result(evidence):
        return []
    value = run.reported_value(evidence.goal_metric)
    if value is None or not evidence.reaches_goal(value):
        return []
    return [
        f"the smoke run already meets the goal: {evidence.goal_metric} {value:.4g} after {run.summary.steps} steps. "
        "Ask the user for a target that says something; configure(changes={'goal.target': …}) takes it"
    ]


def _fixed(present: dict[str, Any], goal: dict[str, Any], why: str) -> ConfigurationError:
    words = f"{present['direction']} {present['metric']} to {present['target']:g}"
    target = {"ask_owner": {"goal": {"target": goal["target"]}}} if goal["metric"] == present["metric"] else {}
    return ConfigurationError(
        f"The goal is fixed: {words}, and {why}. Only the owner may revise its target so.",
        remedy=f"The same call with {target}." if target else "Another metric is another project: create_project.",
        details={"amend": {"changes": None, **target}} if target else {},
    )


def keep_goal(evidence: Evidence, goal: dict[str, Any], reason: str) -> dict[str, list[Any]]:
    """Record a changed goal; return {"goal": [before, after]}, or nothing where it is the present one."""
    before = evidence.goal
    if goal == before:
        return {}
    record(evidence.session, evidence.name, GoalChanged(goal=goal, before=before, reason=reason))
    return {"goal": [before, goal]}
