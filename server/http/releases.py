"""Releases over HTTP: a project's final model as one archive, for clients that are not on the server's machine."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from trainwright.server.access import entered
from trainwright.server.http.door import PROJECT, Audit
from trainwright.server.http.tokens import Holder
from trainwright.trainer.base.errors import NotFoundError, TrainwrightError

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.requests import Request

FOLDER = "final_model"
ADDRESS = "/releases/{project}.tar"


def releases(workspace: Path, security: TransportSecuritySettings) -> Route:
    """Return the route that answers `GET /releases/PROJECT.tar` to holders of tokens that may read the project."""
    guard, audit = TransportSecurityMiddleware(security), Audit(workspace)

    async def answer(request: Request) -> Response:
        refused = await guard.validate_request(request)
        if refused is not None:
            return refused
        holder, project = getattr(request.scope.get("user"), "access_token", None), request.path_params["project"]
        if not isinstance(holder, Holder):
            return _refusal(
                401, "This request carries no token that lets anybody in.", "Send it: Authorization: Bearer …"
            )
        access = holder.kept.access
        with entered(access, read_only=False), audit.line("releases", {"arguments": {"project": project}}) as line:
            if not access.sees(project):
                line.answered({"isError": True})
                return _refusal(
                    403, f"The token {access.token!r} is bound to {', '.join(access.projects)}.", "Name one."
                )
            try:
                archive = await anyio.to_thread.run_sync(_archive, workspace, project)
            except TrainwrightError as error:
                line.answered({"isError": True})
                return _refusal(404, error.message, error.remedy)
            line.answered({})
        name = f"{project}.tar"
        return FileResponse(
            archive, media_type="application/x-tar", filename=name, background=BackgroundTask(os.unlink, archive)
        )

    return Route(ADDRESS, answer, methods=["GET"])


def _archive(workspace: Path, project: str) -> str:
    """Return the path of a new archive of the project's final model, without links. Raises NotFoundError."""
    folder = workspace / "projects" / project / FOLDER
    if not PROJECT.fullmatch(project) or not folder.is_dir():
        raise NotFoundError(
            f"Project {project[:63]!r} has no final model.", remedy="advance(project=…) goes on to its release."
        )
    number, path = tempfile.mkstemp(suffix=".tar", prefix="trainwright-release-")
    with os.fdopen(number, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for one in sorted(folder.rglob("*")):
            if one.is_file() and not one.is_symlink():
                archive.add(one, arcname=f"{FOLDER}/{one.relative_to(folder)}", filter=_nobodys)
    return path


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry that says nothing of the server's user."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _refusal(status: int, message: str, remedy: str) -> JSONResponse:
    facts: dict[str, Any] = {"message": message, "remedy": remedy}
    return JSONResponse(facts, status_code=status)
