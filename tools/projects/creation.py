"""Making a project: the goal is fixed here, before any result exists."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from trainwright.tools.ledger import append, as_told, entries
from trainwright.tools.owner import checked_wishes, limit_wishes, require_granted, root_wishes
from trainwright.tools.projects.code_roots import code_folder
from trainwright.tools.projects.configuration import keep_version, template_values
from trainwright.tools.projects.status import ProjectStatus, project_status
from trainwright.tools.workspace.tables import Project
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.config import in_words, parse_config
from trainwright.trainer.errors import ConfigurationError, ConflictError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace

METRIC = re.compile(r"[A-Za-z0-9_./-]{1,64}")
SHARES = {"accuracy", "balanced_accuracy", "f1", "auc", "mean_iou"}
"""Metrics that lie in 0 to 1, more being better."""
OBJECTIVE_METRICS = {
    "adversarial": ("robust_loss", "robust_accuracy"),
    "contrastive": ("linear_probe_accuracy",),
}
"""What an objective measures by itself; multi_task does so for each of its tasks."""
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
        goal: {metric, direction: minimize|maximize, target}; fixed for ever.
        template: baseline, tuning or production.
        config: sections laid over the template; must name `model` and `data`, or a `task`.
        limits: wishes, where they differ from the owner's limits.

    Raises:
        ConflictError: the name is taken.
        ConfigurationError: the name, intent, goal, limits or configuration is not valid.
        ApprovalNeededError: a limit above the owner's, or a code root outside theirs: asked for, and not granted yet.
    """
    checked_name(name)
    _check_intent(intent)
    _check_goal(goal)
    with workspace.session() as session:
        _require_new(session, name)
    wishes = checked_wishes(workspace, limits or {})
    values = _with_goal(_overlaid(template_values(template), config or {}), goal)
    root = code_folder(workspace, str(values.get("code_root", ".")))
    parse_config(values, mend=lambda mended: f"create_project(name={name!r}, …) {in_words(mended)}.")
    beyond = {limit: wishes[limit] for limit in workspace.settings.limits.exceeded_by(wishes)}
    needed = limit_wishes(beyond) + root_wishes(workspace, root)
    require_granted(workspace, name, needed, again=f"create_project(name={name!r}, …)", reason=intent)
    with workspace.session() as session:
        _require_new(session, name)
        project = Project(name=name, intent=intent, goal=goal, limits=wishes, code_root=str(root))
        session.add(project)
        session.flush()
        body = {"intent": intent, "goal": goal, "limits": project.limits, "code_root": str(root),
                "created_at": as_told(project.created_at)}  # fmt: skip
        append(session, name, "project_created", body)
        keep_version(session, name, values, f"template {template}")
        workspace.project_folder(name).mkdir(parents=True, exist_ok=True)
    status = project_status(workspace, name)
    assert isinstance(status, ProjectStatus)  # noqa: S101 - one name gives one status
    return status


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
            remedy='Give goal={"metric": "accuracy", "direction": "maximize", "target": 0.95}.',
        )
    if not METRIC.fullmatch(metric):
        raise ConfigurationError(
            f"goal.metric {metric[:80]!r} is not the name of a metric.",
            remedy="Use 1 to 64 of A-Z, a-z, 0-9, '_', '.', '-' and '/'.",
        )
    if metric in SHARES and not (goal["direction"] == "maximize" and 0 <= target <= 1):
        raise ConfigurationError(
            f"The goal is to {goal['direction']} {metric} to {target:g}; {metric} lies in 0 to 1, and more is better.",
            remedy=f'Give goal={{"metric": "{metric}", "direction": "maximize", "target": 0.95}}.',
        )


def _check_intent(intent: str) -> None:
    control = next((sign for sign in intent if sign not in "\n\t" and unicodedata.category(sign) in {"Cc", "Cs"}), None)
    if len(intent) > MOST_INTENT_CHARACTERS or control is not None:
        has = f"has {len(intent)} characters" if control is None else f"holds the control character {control!r}"
        raise ConfigurationError(
            f"The intent {has}; it is plain text of at most {MOST_INTENT_CHARACTERS} characters.",
            remedy="Say in a few plain sentences what the model is for.",
        )


def _overlaid(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _overlaid(result[key], value) if both else value
    return result


def _with_goal(values: dict[str, Any], goal: dict[str, Any]) -> dict[str, Any]:
    """Let the run select by the goal's metric, and compute it where it is not the loss."""
    values["selection"] = {"metric": goal["metric"], "direction": goal["direction"]}
    metrics = list(values.get("metrics") or [])
    named = [metric if isinstance(metric, str) else metric.get("use", "").split(":")[-1] for metric in metrics]
    given = "task" in values or goal["metric"] == "loss" or _measured_by_objective(goal["metric"], values)
    if not given and goal["metric"] not in named:
        values["metrics"] = [goal["metric"], *metrics]
    return values


def _measured_by_objective(metric: str, values: dict[str, Any]) -> bool:
    """Tell whether the objective measures the metric on validation by itself, so that `metrics` cannot name it."""
    objective = values.get("objective")
    if not isinstance(objective, dict):
        return False
    tasks = objective.get("tasks")
    if objective.get("name") == "multi_task" and isinstance(tasks, dict):
        return any(metric.startswith(f"{task}_") for task in tasks)
    return metric in OBJECTIVE_METRICS.get(str(objective.get("name")), ())
