"""Code root of a project: named when it is made, and pointed to a new place when the folder has moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.staleness import file_changes
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import CodeRootMoved
from trainwright.tools.owner import require_granted, root_grants
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace

KEY = "code_root"
MOST_NAMED = 5


def code_folder(workspace: Workspace, requested: str) -> Path:
    """Return the folder of the user's code; a relative path is taken from the first allowed root.

    Raises ConfigurationError.
    """
    roots = workspace.settings.allowed_roots(workspace.path)
    path = (roots[0] / Path(requested).expanduser()).resolve() if roots else Path(requested).resolve()
    if not path.is_dir():
        raise ConfigurationError(f"code_root {str(path)!r} is not a folder.", remedy="Name an existing folder.")
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
            f"{root} does not hold the files that {project} was measured on: {'; '.join(differing[:MOST_NAMED])}.",
            remedy="Bring the folder there as it was, then name it again; change files afterwards, and the gates say "
            "what that re-opens. Other code is another project: create_project.",
        )
