"""Access of a caller: what the call may do, and on which projects. One place that every tool call passes.

Over stdio the caller is who started the server, and may do all. Over HTTP it is the holder of a token, with a scope
and, where the owner wants it, projects. A server that was started read-only narrows both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from trainwright.trainer.base.errors import ApprovalNeededError, ConflictError, NotFoundError, near

if TYPE_CHECKING:
    from mcp.server.mcpserver.tools import Tool

    from trainwright.tools.workspace import Workspace

Scope = Literal["read", "operate", "own"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Each holds those before it: tools that only read; all tools; and a person's grants asked for over this connection."""
OF_THE_WORKSPACE = {"create_project", "open_dashboard"}
"""Tools that make or show what belongs to no one project."""
OF_ALL = "project_status"
"""Tool that lists projects where none is named; it lists the caller's."""
RUNS, STUDIES = ("run_id", "run_ids"), ("study_id",)
_URI = re.compile(r"trainwright://(?:(documents)(?:/.*)?|projects/([a-z0-9_-]+)/.*|runs/([^%?#]+)/status)|(ui://.*)")


@dataclass(frozen=True)
class Access:
    """What the caller of a tool may do."""

    token: str | None = None
    """Name of the token, over HTTP."""
    scope: Scope = "own"
    projects: tuple[str, ...] = ()
    """The only ones of which calls may be; none: all."""
    is_read_only: bool = False
    """Whether the server was started so."""

    @property
    def operates(self) -> bool:
        """Whether tools that change something may be called."""
        return self.scope != "read" and not self.is_read_only

    @property
    def may_grant(self) -> bool:
        """Whether a person may answer for the owner over this connection."""
        return self.scope == "own" and self.operates

    def sees(self, project: str) -> bool:
        """Return whether calls may be about the project."""
        return not self.projects or project in self.projects


LOCAL = Access()
_PRESENT: ContextVar[Access] = ContextVar("access", default=LOCAL)


def present_access() -> Access:
    """Return what the caller of the call that is being handled may do."""
    return _PRESENT.get()


@contextmanager
def entered(access: Access, *, read_only: bool) -> Iterator[None]:
    """Handle calls with this access."""
    token = _PRESENT.set(replace(access, is_read_only=read_only))
    try:
        yield
    finally:
        _PRESENT.reset(token)


def require_operating(what: str) -> None:
    """Refuse what changes something to a caller that may only read. Raises ApprovalNeededError."""
    access = present_access()
    if access.operates:
        return
    if access.is_read_only:
        raise ApprovalNeededError(
            f"This server is read-only, and {what} may change something; nothing was done.",
            remedy="Call tools that only read (project_status, run_status, …), or ask the owner for a server without "
            "--read-only.",
        )
    raise ApprovalNeededError(
        f"The token {access.token!r} has the scope read, and {what} needs operate; nothing was done.",
        remedy="Call tools that only read (project_status, run_status, …), or ask the owner for a token: "
        "`trainwright tokens new NAME --scope operate`.",
    )


def permitted(tool: Tool, values: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Return the arguments of a call for a caller that is bound to projects, with the runs that they mean.

    Names of runs are replaced by long ids, so that what was permitted is what is read.

    Raises:
        ApprovalNeededError: the call is about another project, or about the workspace.
        ConflictError: the call names no project, and the caller has several.
    """
    access = present_access()
    if tool.name in OF_THE_WORKSPACE:
        raise _bound(access, f"{tool.name} is about the whole workspace")
    project = values.get("project")
    if project is not None:
        _require_project(access, project, workspace)
    _require_own_names(access, values)
    found = dict(values)
    for key in (*RUNS, *STUDIES):
        if isinstance(values.get(key), list):
            found[key] = [_own(access, workspace, name, project) for name in values[key]]
        elif values.get(key) is not None:
            found[key] = _own(access, workspace, values[key], project, is_study=key in STUDIES)
    takes = [key for key in ("project", "run_id", "study_id", "run_ids") if key in values]
    if takes and tool.name != OF_ALL and not any(values.get(key) for key in takes):
        only = _only(access, tool.name)
        _require_project(access, only, workspace)
        found[takes[0]] = [only] if takes[0] == "run_ids" else only
    return found


def own_name(workspace: Workspace, name: str) -> str:
    """Return the long id of a run or study of the caller's projects. Raises ApprovalNeededError."""
    return _own(present_access(), workspace, name, None)


def permitted_uri(uri: str, workspace: Workspace) -> None:
    """Refuse a resource of another project to a caller that is bound to some. Raises ApprovalNeededError."""
    access = present_access()
    if not access.projects:
        return
    read = _URI.fullmatch(uri)
    if read is None:
        raise _bound(access, f"{uri[:80]!r} is no resource of a project of its own")
    _, project, run, _ = read.groups()
    if project is not None:
        _require_project(access, project, workspace)
    if run is not None and run.strip().strip("/") in {"", "latest"}:  # of all projects, to whom reads it
        raise _bound(
            access, f"{uri[:80]!r} does not say of which: trainwright://runs/{access.projects[0]}/latest/status"
        )
    if run is not None:
        _own(access, workspace, run, None)


def project_in(uri: str) -> str | None:
    """Return the project in a resource's address, if it is in it."""
    read = _URI.fullmatch(uri)
    return read.group(2) or (read.group(3) or "").rpartition("/")[0] or None if read else None


def _own(access: Access, workspace: Workspace, name: str, project: str | None, *, is_study: bool = False) -> str:
    """Return the long id of a run or study of the caller's projects. Raises ApprovalNeededError."""
    from trainwright.server.surface.arguments import names_study, run_of, study_of

    owner = name.strip().rpartition("/")[0]
    if owner:
        _require_project(access, owner)
    if name.strip() == "latest" and project is None:
        name = _only(access, name)
    try:
        found = (study_of if is_study or names_study(name) else run_of)(workspace, name, project)
    except (NotFoundError, ConflictError):
        raise _bound(access, f"there is no run or study {name[:80]!r} in them") from None
    if not access.sees(_project_of(workspace, found)):  # which other projects there are is not told
        raise _bound(access, f"there is no run or study {name[:80]!r} in them")
    return found


def _project_of(workspace: Workspace, name: str) -> str:
    from trainwright.tools.workspace.tables import Run, Study

    with workspace.snapshot() as session:
        row = session.get(Run, name) or session.get(Study, name)
        return row.project if row is not None else ""


def _require_own_names(access: Access, values: Mapping[str, Any]) -> None:
    """Refuse runs of other projects wherever a call names them: the baseline of a configuration may be any run."""
    from trainwright.tools.workspace.handles import long_ids
    from trainwright.trainer.run import RunKind

    kinds = "|".join([*RunKind, "study", "latest"])
    named = re.compile(rf"([a-z0-9_-]+)(?:/(?:{kinds})(?:-\d+)?|@v?\d+)")
    for key, text in _texts({key: value for key, value in values.items() if key not in {"reason", "intent"}}):
        read = named.fullmatch(text.strip())
        if read is None and near(key.rpartition(".")[2].strip(), ["baseline"]):  # slips of the key are read as it
            raise _bound(
                access, f"{key} = {text[:63]!r} does not say of which project: write {access.projects[0]}/final-1"
            )
        owners = [read.group(1)] if read else []
        owners += [name.rsplit("-", 3)[0].partition("-")[2] for name in long_ids([text])]
        for owner in owners:
            _require_project(access, owner)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text with the key that it is under, those in JSON written as a text too."""
    from trainwright.trainer.config.value_coercion import from_text  # loads the configuration's schema

    value = from_text(value) if isinstance(value, str) else value
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, key)


def _require_project(access: Access, project: str, workspace: Workspace | None = None) -> None:
    """Refuse another project, and with a workspace one that is not there: its refusal would name those that are."""
    if not access.sees(project):
        raise _bound(access, f"this call is about {project[:63]!r}")
    if workspace is not None and not _is_there(workspace, project):
        raise _bound(access, f"there is no project {project[:63]!r} now")


def _is_there(workspace: Workspace, project: str) -> bool:
    from trainwright.tools.workspace.tables import Project

    with workspace.snapshot() as session:
        return session.get(Project, project) is not None


def _only(access: Access, what: str) -> str:
    if len(access.projects) == 1:
        return access.projects[0]
    raise ConflictError(
        f"{what} names no project, and the token {access.token!r} is bound to several.",
        remedy=f"Name one of {', '.join(access.projects)}.",
    )


def _bound(access: Access, what: str) -> ApprovalNeededError:
    own = ", ".join(access.projects)
    return ApprovalNeededError(
        f"The token {access.token!r} is bound to the projects {own}, and {what}; nothing was done.",
        remedy=f"project_status(project={access.projects[0]!r}) shows what there is; or ask the owner for a token: "
        "`trainwright tokens new NAME --project P`.",
    )
