"""Changing a project's configuration: every version is kept, and the answer names the gates that re-open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools.answers import Answer
from trainwright.tools.documents import SKILL
from trainwright.tools.environments import require_environment
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_of
from trainwright.tools.gates.phase_status import PhaseStatus, phase_status_of
from trainwright.tools.gates.scope import require_reason, scope_changes
from trainwright.tools.gates.since_release import left_behind
from trainwright.tools.gates.staleness import file_changes
from trainwright.tools.handover import HandOverView, read_words
from trainwright.tools.handover import hand_over as hand_over_project
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import CodeRootMoved, ConfigurationKept
from trainwright.tools.owner import (
    Grant,
    Request,
    RequestView,
    ask,
    checked_limits,
    ending_grants,
    exemption_grant,
    limit_grants,
    require_granted,
    root_grants,
    view,
)
from trainwright.tools.projects.goals import changed_goal, keep_goal, of_changes, settled_for
from trainwright.tools.projects.named_files import files_told, require_files
from trainwright.tools.projects.passing import begin, refuse_to_change
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, latest_config, runs_of
from trainwright.tools.workspace.tables import ConfigVersion, Project, now
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.config import config_digest, leaves, load_yaml, merge_changes, parse_config
from trainwright.trainer.config.cross_rules import without_the_trainers
from trainwright.trainer.config.merging import MergedConfig

TEMPLATES = ("baseline", "tuning", "production")
KEPT_BY_TEMPLATE = (
    "model", "data", "loss", "metrics", "task", "trainer", "returns", "code_root", "code_files", "selection", "seed",
)  # fmt: skip
"""Keys that a project keeps when it starts again from another template: the task, not its training."""


class ConfigurationAnswer(Answer):
    """The present version."""

    project: str
    version: int
    digest: str
    changed: dict[str, list[Any]]
    """Dotted key to [old, new]."""
    phase: str
    reopened: list[str]
    """Gates that had passed and are to be passed again, in order; the first with what has changed."""
    under_way: list[str] | None = None
    """Runs that go on with the configuration that they were started with; stop_training ends one."""
    scope_changed: list[str] | None = None
    """What has been made smaller, or other, since a run ran out of memory, with the reason."""
    release_begun: int | None = None
    """The release that is worked on from now on; the one before it stays finished."""
    requests: list[RequestView] | None = None
    """This call's requests to the owner, with their status."""
    handed_over: HandOverView | None = None
    """The hand-over that this call wrote, after any change of the configuration."""

    def unsaid(self) -> dict[str, Any]:
        """The digest, which the version's number stands for."""
        return {"digest": True}


def configure(
    workspace: Workspace,
    project: str,
    *,
    changes: dict[str, Any] | None = None,
    reason: str = "",
    template: str | None = None,
    ask_owner: dict[str, Any] | None = None,
    begin_release: bool = False,
    hand_over: dict[str, Any] | None = None,
) -> ConfigurationAnswer:
    """Apply changes and keep the result as a new version (no change, no version); ask the owner for the rest.

    Args:
        changes: dotted keys or sections, which merge; None removes. With another `use` or `name` the old args go.
            `goal` raises the goal, or changes it before a result counts.
        ask_owner: {limits: {name: value}, exemption: operation, accept: value of the goal's metric, goal: {target},
            alert: id}; the same call again reports its status.
        begin_release: work on a finished project: its next release begins with planning. No effect where that has
            begun, so that the call may be repeated.
        hand_over: {by, to, questions, notes}: the project goes to another agent, after all else that is asked here.

    Raises:
        NotFoundError: no such project.
        ConfigurationError: the result breaks the schema, or the request is invalid; nothing was changed.
        ConflictError: the project is finished, and the call would change it without beginning a release; or there is
            no finished release to work on; or too many requests wait for the owner.
    """
    words = None if hand_over is None else read_words(hand_over, project)  # refused before anything is changed
    asked = {"changes": changes, "reason": reason, "template": template, "ask_owner": ask_owner}
    try:
        answer = _changed(workspace, project, asked, begin_release=begin_release)
    except ConfigurationError as error:
        _complete(error, workspace, project, begin_release=begin_release)
        raise
    if words is None:
        return answer
    return answer.model_copy(update={"handed_over": hand_over_project(workspace, project, words)})


def _changed(workspace: Workspace, project: str, asked: dict[str, Any], *, begin_release: bool) -> ConfigurationAnswer:
    """Apply changes and record requests; `asked` as `configure` takes them."""
    changes, reason = asked["changes"], asked["reason"]
    given, changes = changes or {}, {key: value for key, value in (changes or {}).items() if key != KEY}
    named = {key: changes.pop(key) for key in list(changes) if key.split(".")[0].strip().lower() == "goal"}
    with workspace.session() as session:
        row = get_project(session, project)
        if KEY in given:  # refused completely: nothing moves where the rest cannot be
            _settled(session, row, changes, asked, code_folder(workspace, str(given[KEY])))
    moved = move_code_root(workspace, project, given, reason)
    refresh_project(workspace, project)
    with workspace.session() as session:
        row = get_project(session, project)
        old, settled = _settled(session, row, changes, asked, Path(row.code_root))
        if any(key.partition(".")[0] == "environment" for key in settled.changes):
            require_environment(workspace, settled.config, Path(row.code_root))
        grants = _grants(workspace, row, asked["ask_owner"] or {})
        present = Evidence(session, workspace, project)
        with of_changes(given):
            goal = changed_goal(present, {key: value for key, value in named.items() if value is not None})
            if (goal["metric"], goal["direction"]) != (row.goal["metric"], row.goal["direction"]):
                rest = {key: value for key, value in settled.values.items() if key != "selection"}
                settled = settled_for({}, rest, goal)
        new = settled.values
        changed = _differences(old, new)
        where = phase_status_of(present)
        if where.release is not None and (changed or goal != present.goal) and not begin_release:
            refuse_to_change(project, where, asked)
        if begin_release and where.release is None and not present.begun:
            raise ConflictError(
                f"Project {project} is in {where.phase.value}: no release is finished to work on. Nothing was changed.",
                remedy="The same call without begin_release; a release begins once the last gate has passed.",
                document="phases/WORKFLOW.md",
                details={"amend": {"begin_release": False}},
            )
        begun = begin(session, project, where, reason) if begin_release else None
        notes = settled.notes + (files_told(settled.changes, settled.config, Path(row.code_root)) if changed else [])
        if begun is not None and not changed:
            notes.append(f"configured as {where.release}: change first what is to differ, here or in the files")
        if begun is not None and (found := left_behind(present, new)):
            call = present.call("configure", "", changes=found)
            notes.append(f"it starts from before the search of {where.release}, whose best values {call} takes over")
        moved |= keep_goal(present, goal, reason)
        if changed:
            if not reason.strip():
                require_reason(present, new)
            keep_version(session, row.name, new, reason)
        requests = [ask(session, workspace, project, grant, reason) for grant in grants]
        evidence = Evidence(session, workspace, project)
        before_it, where = where, phase_status_of(evidence)
        return ConfigurationAnswer(
            project=project,
            version=evidence.version.number,
            digest=evidence.version.digest,
            changed=_told(changed, new) | moved,
            under_way=[run.id for run in runs_of(session, project) if not run.sealed] or None if changed else None,
            scope_changed=[str(change) for change in scope_changes(evidence)] or None,
            phase=where.phase.value,
            release_begun=begun,
            reopened=_reopened(before_it, where),
            requests=[view(request) for request in requests] or None,
            taken_as=notes or None,
            next=next_of(evidence),
        )


def _complete(error: ConfigurationError, workspace: Workspace, project: str, *, begin_release: bool) -> None:
    """Let the call that a refusal amends be one that is accepted: a finished project begins its next release by it."""
    amend = error.details.get("amend")
    if amend is None:
        return
    with workspace.session() as session:
        release = phase_status_of(Evidence(session, workspace, project)).release
    if release is not None and not begin_release:
        amend["begin_release"] = True
        error.remedy = f"{error.remedy.rstrip('.')}; begin_release=true, for {release} is finished, and stays."


def _told(changed: dict[str, list[Any]], new: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the changes without the defaults that a section which begins brings along: a search has 25 keys."""
    chosen = leaves(parse_config(new).model_dump(mode="json", exclude_defaults=True)).keys() | leaves(new).keys()
    told = {key: sides for key, sides in changed.items() if sides != [None, None]}
    return {key: sides for key, sides in told.items() if sides[0] is not None or key in chosen} or told or changed


def _differences(old: dict[str, Any], new: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the values before and after by dotted key, of the keys that differ."""
    before, after = (leaves(parse_config(values).model_dump(mode="json")) for values in (old, new))
    return {
        key: [before.get(key), after.get(key)]
        for key in sorted(before.keys() | after.keys())
        if key not in before or key not in after or before[key] != after[key]
    }


def _settled(
    session: Session, row: Project, changes: dict[str, Any], asked: dict[str, Any], code_root: Path
) -> tuple[dict[str, Any], MergedConfig]:  # fmt: skip
    """Return the present values and those after the changes. Raises ConfigurationError."""
    old = latest_config(session, row.name).values
    template = asked["template"]
    settled = merge_changes(changes, _from_template(old, template) if template else old, argument="changes")
    require_files(settled.changes, settled.config, code_root)
    return old, settled


def _reopened(before: PhaseStatus, now: PhaseStatus) -> list[str]:
    """Return the gates that are no longer passed, the first of them with the changes that made it stale."""
    reopened = []
    for gate in now.gates:
        if gate.reasons:
            reopened.append(f"{gate.phase.value}: {'; '.join(gate.reasons)}")
        elif gate.status in {"open", "closed"} and before.gate(gate.phase).status in {"passed", "skipped"}:
            reopened.append(gate.phase.value)
    return reopened


def ask_for(workspace: Workspace, project: str, ask_owner: dict[str, Any], reason: str = "") -> list[Request]:
    """Ask the owner, or find an earlier request. Raises as `configure` does."""
    with workspace.session() as session:
        row = get_project(session, project)
        return [ask(session, workspace, project, grant, reason) for grant in _grants(workspace, row, ask_owner)]


def _grants(workspace: Workspace, project: Project, asked: dict[str, Any]) -> list[Grant]:
    """Return the request to the owner, in exact terms. Raises ConfigurationError."""
    limits = checked_limits(workspace, asked.get("limits") or {}, within=("ask_owner", asked))
    grants = limit_grants(limits)
    if asked.get("exemption"):
        grants.append(exemption_grant(asked["exemption"]))
    if asked.get("delete_project"):
        grants.append(Grant(kind="deletion", name=project.name))
    return grants + ending_grants(project.goal, asked, [document.id for document in load_diagnostics()])


def keep_version(session: Session, project: str, values: dict[str, Any], reason: str) -> ConfigVersion:
    """Check the values and keep them as the project's newest version, with a ledger entry."""
    digest = config_digest(parse_config(values))
    newest = session.scalar(select(func.max(ConfigVersion.number)).where(ConfigVersion.project == project)) or 0
    kept = ConfigurationKept(number=newest + 1, digest=digest, values=values, reason=reason, created_at=now())
    record(session, project, kept)
    return latest_config(session, project)


def template_values(template: str) -> dict[str, Any]:
    """Return a template's values. Raises ConfigurationError on an unknown name."""
    if template not in TEMPLATES:
        raise ConfigurationError(f"There is no template {template!r}.", remedy=f"Use one of {', '.join(TEMPLATES)}.")
    path = SKILL / "configs" / f"{template}_template.yaml"
    return load_yaml(path.read_text(encoding="utf-8"), source=path.name)


def _from_template(values: dict[str, Any], template: str) -> dict[str, Any]:
    laid = without_the_trainers(template_values(template)) if values.get("trainer") else template_values(template)
    return laid | {key: values[key] for key in KEPT_BY_TEMPLATE if key in values}


# Code root of a project: named when it is made, and pointed to a new place when the folder has moved.

KEY = "code_root"
MAX_NAMED = 5


def code_folder(workspace: Workspace, requested: str) -> Path:
    """Return the folder of the user's code; a relative path is taken from the first allowed root.

    Raises ConfigurationError.
    """
    roots = workspace.settings.allowed_roots(workspace.path)
    path = (roots[0] / Path(requested).expanduser()).resolve() if roots else Path(requested).resolve()
    if not path.is_dir():
        raise ConfigurationError(
            f"code_root {str(path)!r} is not a folder.",
            remedy="Name an existing folder.",
            details={"absent": str(path)},
        )
    if path == workspace.path.resolve():
        raise ConfigurationError(
            f"code_root {str(path)!r} is the workspace, which holds what was measured.",
            remedy="Name the folder of your code, outside it.",
        )
    return path


def move_code_root(workspace: Workspace, project: str, changes: dict[str, Any], reason: str) -> dict[str, list[str]]:
    """Point the project to the folder that `changes` names as `code_root`, where the same files stand.

    Nothing turns stale: the configuration keeps its values, and gates depend on the files.

    Returns: {"code_root": [old, new]}, or nothing where it is not named or is the present one.

    Raises:
        ConfigurationError: no such folder, or its files are not those that the project was measured on.
        ApprovalNeededError: it lies outside the owner's roots, and the owner has not granted it.
    """
    if KEY not in changes:
        return {}
    with workspace.session() as session:
        before = get_project(session, project).code_root
    root = code_folder(workspace, str(changes[KEY]))
    if str(root) == before:
        return {}
    with workspace.session() as session:  # first: a call that would be refused anyway needs no request to the owner
        _require_same_files(session, workspace, project, root)
    call = f"configure(project={project!r}, changes={{'code_root': {str(root)!r}}})"
    require_granted(workspace, project, root_grants(workspace, root), again=call, reason=reason)
    with workspace.session() as session:
        _require_same_files(session, workspace, project, root)
        was = get_project(session, project).code_root
        record(session, project, CodeRootMoved(code_root=str(root), before=was, reason=reason))
    return {KEY: [before, str(root)]}


def _require_same_files(session: Session, workspace: Workspace, project: str, root: Path) -> None:
    evidence = Evidence(session, workspace, project)
    seals = [run_id for run_id, body in evidence.facts.started.items() if run_id in evidence.facts.seals]
    measured = [run for run_id in reversed(seals) if (run := evidence.run(run_id)) is not None and run.code]
    differing = file_changes(root, measured[0], evidence.inspection.digest) if measured else []
    if differing:
        raise ConfigurationError(
            f"{root} does not hold the files that {project} was measured on: {'; '.join(differing[:MAX_NAMED])}.",
            remedy="Bring the folder there as it was, then name it again; change files afterwards, and the gates say "
            "what that re-opens. Other code is another project: create_project.",
        )
