"""Making a project: its goal is named here, before any result exists."""

from __future__ import annotations

import unicodedata
from typing import Any

from sqlalchemy.orm import Session

from trainwright.tools.answers import NextCall
from trainwright.tools.environments import require_environment
from trainwright.tools.evaluation.own_metrics import own_entries
from trainwright.tools.ledger import entries, record
from trainwright.tools.ledger.events import ProjectCreated
from trainwright.tools.owner import checked_limits, limit_grants, require_granted, root_grants
from trainwright.tools.projects.configuration import code_folder, keep_version, template_values
from trainwright.tools.projects.goals import check_goal, other_than_said, settled_for, unbounded_test
from trainwright.tools.projects.named_files import require_files
from trainwright.tools.projects.status import ProjectStatus, project_status
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Project, now
from trainwright.tools.workspace.workspace import checked_name
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.base.section import episode_entries
from trainwright.trainer.catalog.names import BUILT_IN
from trainwright.trainer.config.goal import corrected_goal

BY_YOUR_FUNCTION = (
    "is your function: it is computed apart too, of the exported program's outputs, the targets, its own file and "
    "those that it imports. Where it needs more, its value is the training process's alone."
)
BY_EPISODES = (
    "is your function: it plays episodes with the exported program alone too, in a process that has its own file, "
    "those that it imports, and seeds that the server draws then. It is called program(inputs) with arrays (rows, …), "
    "and answers with the output."
)
NEVER_CERTIFIED = (
    "is measured by the training process, never certified: the clean room computes built-in metrics alone. Put one of "
    "these beside it in `metrics`."
)
BY_THE_TRAINER = (
    "is measured where the trainer's compute_metrics returns it, under this very name: what else it returns selects no "
    "epoch. The smoke run fails where it does not."
)
MAX_INTENT_CHARACTERS = 2000


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
        goal: {metric, direction: minimize|maximize, target}; once a result counts, raised, or revised by the owner.
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
    goal, notes = corrected_goal(goal, config)
    check_goal(goal)
    with workspace.session() as session:
        _require_new(session, name)
    requested = checked_limits(workspace, limits or {})
    settled = settled_for(config or {}, template_values(template), goal)
    values = settled.values
    root = code_folder(workspace, settled.config.code_root)
    beyond = {limit: requested[limit] for limit in workspace.settings.limits.exceeded_by(requested)}
    needed = limit_grants(beyond) + root_grants(workspace, root)
    require_granted(workspace, name, needed, again=f"create_project(name={name!r}, …)", reason=intent)
    require_files(settled.changes, settled.config, root)  # not before: files outside the roots are not read
    require_environment(workspace, settled.config, root)
    with workspace.session() as session:
        _require_new(session, name)
        made = ProjectCreated(intent=intent, goal=goal, limits=requested, code_root=str(root), created_at=now())
        record(session, name, made)
        keep_version(session, name, values, f"template {template}")
        workspace.project_folder(name).mkdir(parents=True, exist_ok=True)
    status = project_status(workspace, name)
    assert isinstance(status, ProjectStatus)  # noqa: S101 - one name gives one status
    own = goal["metric"] not in {*BUILT_IN["metrics"], "loss"} and settled.config.objective.name != "multi_task"
    in_file = goal["metric"] in {one.use.rpartition(":")[2] for one in own_entries(settled.config)}
    is_played = goal["metric"] in {one.use.rpartition(":")[2] for one in episode_entries(settled.config.metrics)}
    told = BY_EPISODES if is_played else BY_YOUR_FUNCTION if in_file else NEVER_CERTIFIED
    remarks = [
        *status.remarks, *other_than_said(intent, goal), *([f"{goal['metric']} {told}"] if own else []),
        *([f"{goal['metric']} {BY_THE_TRAINER}"] if settled.config.trainer and goal["metric"] != "loss" else []),
        *unbounded_test(intent, goal, settled.config),
    ]  # fmt: skip
    call = status.next
    if call is not None and call.tool == "start_training":
        why = f"makes the calls that need no decision, and stops where there is one; first {call}"
        call = NextCall(tool="advance", arguments={"project": name}, why=why)
    return status.model_copy(update={"taken_as": [*notes, *settled.notes] or None, "remarks": remarks, "next": call})


def settled_values(config: dict[str, Any], goal: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with which a project would be made: over the template, selecting by the goal's metric.

    Raises ConfigurationError.
    """
    return dict(settled_for(config, template_values("baseline"), corrected_goal(goal, config)[0]).values)


def _require_new(session: Session, name: str) -> None:
    if entries(session, name, "project_deleted"):
        raise ConflictError(
            f"There was a project {name!r}, which was deleted; its ledger keeps the name.", remedy="Use another name."
        )
    if session.get(Project, name) is not None:
        raise ConflictError(
            f"There is a project {name!r} already.", remedy=f"project_status(project={name!r}), or another name."
        )


def _check_intent(intent: str) -> None:
    control = next((sign for sign in intent if sign not in "\n\t" and unicodedata.category(sign) in {"Cc", "Cs"}), None)
    if len(intent) > MAX_INTENT_CHARACTERS or control is not None:
        has = f"has {len(intent)} characters" if control is None else f"holds the control character {control!r}"
        raise ConfigurationError(
            f"The intent {has}; it is plain text of at most {MAX_INTENT_CHARACTERS} characters.",
            remedy="Say in a few plain sentences what the model is for.",
        )
