"""Reports and pictures of a project as resources, and the links to them in answers.

Only files that the server writes for readers: reports and cards as text, plots as pictures. Nothing else in a
project's folder can be read, whatever the path looks like: no weights, no evidence, no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context
from mcp.types import ResourceLink

from trainwright.server.context import workspace_of
from trainwright.trainer.base.errors import NotFoundError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

ROOT = "trainwright://projects/"
REPORT_TEMPLATE = f"{ROOT}{{project}}/reports/{{+path}}"
PICTURE_TEMPLATE = f"{ROOT}{{project}}/pictures/{{+path}}"
REPORTS = (
    "*.md", "final_model/*.md", "validation/report.json", "validation/expectations.yaml",
)  # fmt: skip
PICTURES = ("plots/*.png", "runs/*/artifacts/*.png")
TYPES = {".md": "text/markdown", ".json": "application/json", ".yaml": "application/yaml"}


def links(workspace: Workspace, project: str, paths: Sequence[str | Path]) -> list[ResourceLink]:
    """Return a link to each path that is served as a resource; paths may be relative to the project's folder."""
    folder = workspace.project_folder(project)
    found = []
    for path in dict.fromkeys(folder / path for path in paths):
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""
        if name in _served(folder, REPORTS):
            uri = f"{ROOT}{project}/reports/{name}"
            found.append(ResourceLink(type="resource_link", uri=uri, name=name, mime_type=TYPES[path.suffix]))
        elif name in _served(folder, PICTURES):
            uri = f"{ROOT}{project}/pictures/{name}"
            found.append(ResourceLink(type="resource_link", uri=uri, name=name, mime_type="image/png"))
    return found


def read_report(project: str, path: str, context: Context[Any, Any]) -> str:
    """Return a report's text. Raises NotFoundError."""
    return _file(workspace_of(context), project, path, REPORTS).read_text(encoding="utf-8")


def read_picture(project: str, path: str, context: Context[Any, Any]) -> bytes:
    """Return a picture as PNG. Raises NotFoundError."""
    return _file(workspace_of(context), project, path, PICTURES).read_bytes()


def _file(workspace: Workspace, project: str, path: str, patterns: tuple[str, ...]) -> Path:
    """Return the file, looked up among the served ones and never joined to the folder. Raises NotFoundError."""
    from trainwright.tools.workspace.records import get_project

    with workspace.snapshot() as session:
        get_project(session, project)
    served = _served(workspace.project_folder(project), patterns)
    if path not in served:
        raise NotFoundError(
            f"Project {project} has no such file: {path[:120]!r}.",
            remedy=f"There are: {', '.join(sorted(served)) or 'none yet'}.",
        )
    return served[path]


def _served(folder: Path, patterns: tuple[str, ...]) -> dict[str, Path]:
    """Return the served files by their path in the folder; no link leads out of it."""
    root = folder.resolve()
    files = (path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in files if path.resolve().is_relative_to(root)}
