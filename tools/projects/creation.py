"""Making a project: the goal is fixed here, before any result exists."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainwright.tools.ledger import entries, record
from trainwright.tools.ledger.events import ProjectCreated
from trainwright.tools.owner import checked_limits, limit_grants, require_granted, root_grants
from trainwright.tools.projects.code_roots import code_folder
from trainwright.tools.projects.configuration import keep_version, template_values
from trainwright.tools.projects.named_files import require_files
from trainwright.tools.projects.status import ProjectStatus, project_status
from trainwright.tools.workspace.tables import Project, now
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, near
from trainwright.trainer.catalog.names import BUILT_IN
from trainwright.trainer.config import MergedConfig, merge_changes
from trainwright.trainer.config.cross_rules import without_the_trainers
from trainwright.trainer.config.goal import EXAMPLE, MEASURED, corrected_goal, goal_problem, nearest_goal
from trainwright.trainer.config.goal_words import spoken_goals
from trainwright.trainer.metrics import near_metrics

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace

METRIC = re.compile(r"[A-Za-z0-9_./-]{1,64}")
OBJECTIVE_METRICS = {
    "adversarial": ("robust_loss", "robust_accuracy"),
    "contrastive": ("linear_probe_accuracy",),
}
"""Metrics that an objective measures by itself; multi_task does so for each of its tasks."""
NEVER_CERTIFIED = (
    "is measured by the training process, never certified: the clean room computes built-in metrics alone. Put one of "
    "these beside it in `metrics`."
)
MOST_INTENT_CHARACTERS = 2000


def create_project(
    workspace: Workspace,
    name: str,
    *,
    intent: str,
    goal: dict[str, Any],
    template: str = "baseline",
    config: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
) -> ProjectStatus:
    """Make a project in its planning phase.

    Args:
        goal: {metric, direction: minimize|maximize, target}; never changes.
        template: baseline, tuning or production.
        config: sections laid over the template; must name `model` and `data`, or a `task`.
        limits: the project's limits, where they differ from the owner's.

    Raises:
        ConflictError: the name is taken.
        ConfigurationError: the name, intent, goal, limits or configuration is not valid.
        ApprovalNeededError: a limit above the owner's, or a code root outside theirs: asked for, and not granted yet.
    """
    checked_name(name)
    _check_intent(intent)
    goal, notes = corrected_goal(goal)
    _check_goal(goal)
    with workspace.session() as session:
        _require_new(session, name)
    requested = checked_limits(workspace, limits or {})
    settled = _settled(config or {}, template_values(template), goal)
    values = settled.values
    root = code_folder(workspace, settled.config.code_root)
    beyond = {limit: requested[limit] for limit in workspace.settings.limits.exceeded_by(requested)}
    needed = limit_grants(beyond) + root_grants(workspace, root)
    require_granted(workspace, name, needed, again=f"create_project(name={name!r}, …)", reason=intent)
    require_files(settled.changes, settled.config, root)  # not before: files outside the roots are not read
    with workspace.session() as session:
        _require_new(session, name)
        made = ProjectCreated(intent=intent, goal=goal, limits=requested, code_root=str(root), created_at=now())
        record(session, name, made)
        keep_version(session, name, values, f"template {template}")
        workspace.project_folder(name).mkdir(parents=True, exist_ok=True)
    status = project_status(workspace, name)
    assert isinstance(status, ProjectStatus)  # noqa: S101 - one name gives one status
    own = goal["metric"] not in {*BUILT_IN["metrics"], "loss"} and settled.config.objective.name != "multi_task"
    remarks = [
        *status.remarks, *_other_than_said(intent, goal), *([f"{goal['metric']} {NEVER_CERTIFIED}"] if own else [])
    ]  # fmt: skip
    return status.model_copy(update={"taken_as": [*notes, *settled.notes] or None, "remarks": remarks})


def _other_than_said(intent: str, goal: dict[str, Any]) -> list[str]:
    """Return the sentence on a goal whose metric is another than the intent names; none where it names none, or it."""
    named = [one for one in spoken_goals(intent).named if one.target is not None]
    metrics = {one.word.metric for one in named}
    if not named or goal["metric"] in metrics or (None in metrics and goal["metric"] not in MEASURED):
        return []
    said = " and ".join(one.words for one in named)
    return [f"the intent names {said}, and the goal is in {goal['metric']}, which is another metric: ask the user"]


def settled_values(config: dict[str, Any], goal: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with which a project would be made: over the template, selecting by the goal's metric.

    Raises ConfigurationError.
    """
    return dict(_settled(config, template_values("baseline"), corrected_goal(goal)[0]).values)


def _require_new(session: Session, name: str) -> None:
    if entries(session, name, "project_deleted"):
        raise ConflictError(
            f"There was a project {name!r}, which was deleted; its ledger keeps the name.", remedy="Use another name."
        )
    if session.get(Project, name) is not None:
        raise ConflictError(
            f"There is a project {name!r} already.", remedy=f"project_status(project={name!r}), or another name."
        )


def _check_goal(goal: dict[str, Any]) -> None:
    target: Any = goal.get("target")
    metric: Any = goal.get("metric")
    is_number = isinstance(target, int | float) and not isinstance(target, bool) and math.isfinite(target)
    whole = set(goal) == {"metric", "direction", "target"} and isinstance(metric, str) and metric != ""
    if not (whole and is_number and goal["direction"] in {"minimize", "maximize"}):
        raise ConfigurationError(
            f"The goal {str(goal)[:200]} is not complete.",
            remedy=f"Give goal={json.dumps(nearest_goal(goal) or EXAMPLE)}.",
            details={"amend": {"goal": meant}} if (meant := nearest_goal(goal)) else {},
        )
    if not METRIC.fullmatch(metric):
        raise ConfigurationError(
            f"goal.metric {metric[:80]!r} is not the name of a metric.",
            remedy="Use 1 to 64 of A-Z, a-z, 0-9, '_', '.', '-' and '/'.",
        )
    reason = goal_problem(goal)
    if reason is not None:
        meant = nearest_goal(goal)
        raise ConfigurationError(
            f"The goal cannot be meant: {reason}.",
            remedy=f"Give goal={json.dumps(meant)}.",
            details={"amend": {"goal": meant}},
        )


def _check_intent(intent: str) -> None:
    control = next((sign for sign in intent if sign not in "\n\t" and unicodedata.category(sign) in {"Cc", "Cs"}), None)
    if len(intent) > MOST_INTENT_CHARACTERS or control is not None:
        has = f"has {len(intent)} characters" if control is None else f"holds the control character {control!r}"
        raise ConfigurationError(
            f"The intent {has}; it is plain text of at most {MOST_INTENT_CHARACTERS} characters.",
            remedy="Say in a few plain sentences what the model is for.",
        )


def _settled(config: dict[str, Any], template: dict[str, Any], goal: dict[str, Any]) -> MergedConfig:
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
        _require_built_in(goal, named)
        values["metrics"] = [goal["metric"], *metrics]
    again = merge_changes({}, values, argument="config", nested=True)
    return replace(again, changes=settled.changes, notes=settled.notes)


def _require_built_in(goal: dict[str, Any], named: list[str]) -> None:
    """Refuse a goal whose metric neither is built in nor is listed under `metrics`."""
    metric, built_in = goal["metric"], BUILT_IN["metrics"]
    if metric in built_in:
        return
    meant = near_metrics(metric, built_in) or near(metric, named)
    nearest = nearest_goal({**goal, "metric": meant[0]}) if meant else None
    fitting = [name for name in (*built_in, "loss") if MEASURED[name][0] == goal["direction"]]
    first = f"Give goal={json.dumps(nearest)}, or " if nearest else "Choose one of these, or give "
    raise ConfigurationError(
        f"goal.metric {metric!r} is not measured. Built in to {goal['direction']}: {', '.join(fitting)}; your own "
        "goes under `metrics`.",
        remedy=f'{first}config={{"metrics": [{{"use": "file.py:{metric}"}}]}} besides.',
        document="configs/losses.md",
        details={"amend": {"goal": nearest}} if nearest else {},
    )


def _measured_by_objective(metric: str, values: dict[str, Any]) -> bool:
    """Return whether the objective measures the metric on validation by itself, so that `metrics` cannot name it."""
    objective = values.get("objective")
    if not isinstance(objective, dict):
        return False
    tasks = objective.get("tasks")
    if objective.get("name") == "multi_task" and isinstance(tasks, dict):
        return any(metric.startswith(f"{task}_") for task in tasks)
    return metric in OBJECTIVE_METRICS.get(str(objective.get("name")), ())
