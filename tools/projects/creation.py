"""Making a project: the goal is fixed here, before any result exists."""

from __future__ import annotations

import math
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from trainwright.tools.ledger import append
from trainwright.tools.projects.configuration import keep_version, template_values
from trainwright.tools.projects.status import ProjectStatus, project_status
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.tools.workspace.tables import Project
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.config import in_words, parse_config
from trainwright.trainer.errors import ConfigurationError, ConflictError, LimitReachedError
from trainwright.trainer.user_code.paths import near_matches

if TYPE_CHECKING:
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
        limits: wishes below the owner's limits.

    Raises:
        ConflictError: the name is taken.
        ConfigurationError: the name, intent, goal, limits or configuration is not valid.
        LimitReachedError: a wish is above the owner's limit.
    """
    checked_name(name)
    _check_intent(intent)
    _check_goal(goal)
    wishes = _wishes(workspace, limits or {})
    values = _with_goal(_overlaid(template_values(template), config or {}), goal)
    root = code_root(workspace, str(values.get("code_root", ".")))
    with workspace.session() as session:
        if session.get(Project, name) is not None:
            raise ConflictError(
                f"There is a project {name!r} already.", remedy=f"project_status(project={name!r}), or another name."
            )
        parse_config(values, mend=lambda mended: f"create_project(name={name!r}, …) as before{in_words(mended)}.")
        project = Project(name=name, intent=intent, goal=goal, limits=wishes, code_root=str(root))
        session.add(project)
        session.flush()
        body = {"intent": intent, "goal": goal, "limits": project.limits, "code_root": str(root)}
        append(session, name, "project_created", body)
        keep_version(session, name, values, f"template {template}")
        workspace.project_folder(name).mkdir(parents=True, exist_ok=True)
    status = project_status(workspace, name)
    assert isinstance(status, ProjectStatus)  # noqa: S101 - one name gives one status
    return status


def code_root(workspace: Workspace, wish: str) -> Path:
    """Return the folder of the user's code, inside a root that the owner allowed.

    A relative path is taken from the first allowed root. Raises ConfigurationError.
    """
    roots = workspace.settings.allowed_roots(workspace.path)
    path = (roots[0] / Path(wish).expanduser()).resolve() if roots else Path(wish).resolve()
    if not any(path.is_relative_to(root) for root in roots):
        raise ConfigurationError(
            f"code_root {wish!r} is {path}, outside the folders the owner allowed.",
            remedy=f"Use one under {', '.join(map(str, roots)) or 'a root'}; the owner adds roots (settings.yaml).",
        )
    if not path.is_dir():
        raise ConfigurationError(f"code_root {path} is not a folder.", remedy="Name an existing folder.")
    return path


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


def _wishes(workspace: Workspace, limits: dict[str, Any]) -> dict[str, Any]:
    """Return the project's own limits, those that are lower than the owner's; what is left out follows the owner."""
    owner = workspace.settings.limits
    try:
        whole = ProjectLimits.model_validate({**owner.model_dump(), **limits})
    except ValidationError as error:
        problems = [_explain_limit(problem) for problem in error.errors(include_url=False)]
        raise ConfigurationError(
            f"The limits are not valid: {'; '.join(problems[:8])}.",
            remedy=f"Known limits: {', '.join(ProjectLimits.model_fields)}; positive numbers.",
            details={"problems": problems},
        ) from None
    wishes = {name: getattr(whole, name) for name in limits}
    beyond = owner.exceeded_by(wishes)
    if beyond:
        raise LimitReachedError(
            f"{', '.join(beyond)} above the owner's limit ({', '.join(str(getattr(owner, n)) for n in beyond)}).",
            remedy="Ask for less; only the workspace's owner can raise it, in settings.yaml.",
        )
    return wishes


def _explain_limit(problem: Any) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"unknown limit `{key[:80]}`{near_matches(key, ProjectLimits.model_fields).rstrip('.')}"
    return f"`{key}` = {repr(problem['input'])[:60]}: {problem['msg']}"


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
