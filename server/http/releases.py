"""Releases over HTTP: a project's final model as one archive, for clients that are not on the server's machine."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO

import anyio
import anyio.to_thread
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from trainwright.server.access import entered
from trainwright.server.http.door import PROJECT, Audit
from trainwright.server.http.tokens import Holder

FOLDER = "final_model"
ADDRESS = "/releases/{project}.tar"
PART_BYTES = 64 * 2**10
MAX_MADE_AT_ONCE = 2
MAX_DOWNLOADS = 4
"""Of one token at once: each has an archive of its own, as large as the model."""


def releases(workspace: Path, security: TransportSecuritySettings) -> Route:
    """Return the route that answers `GET /releases/PROJECT.tar` to holders of tokens that may read the project."""
    guard, audit, archives = TransportSecurityMiddleware(security), Audit(workspace), Archives(workspace)

    async def answer(request: Request) -> Response:
        holder, project = await admitted(request, guard), request.path_params["project"]
        if isinstance(holder, Response):
            return holder
        access = holder.kept.access
        with (
            ExitStack() as held,
            entered(access, read_only=False),
            audit.line("releases", {"arguments": {"project": project}}) as line,
        ):
            try:
                if not access.sees(project):
                    raise RefusalError(403, f"The token {access.token!r} is bound to {', '.join(access.projects)}.")
                archive = await archives.one(project, holder.token, held)
            except RefusalError as error:
                line.answered({"isError": True})
                return error.response()
            line.answered({})
            return Download(archive, f"{project}.tar", held.pop_all())

    return Route(ADDRESS, answer, methods=["GET"])


async def admitted(request: Request, guard: TransportSecurityMiddleware) -> Holder | Response:
    """Return the holder of the token that came with a request, or the answer that refuses it."""
    refused = await guard.validate_request(request)
    if refused is not None:
        return refused
    holder = getattr(request.scope.get("user"), "access_token", None)
    if isinstance(holder, Holder):
        return holder
    return RefusalError(
        401, "This request carries no token that lets anybody in.", "Send it: Authorization: Bearer …"
    ).response()


class RefusalError(Exception):
    """A request that is refused in words."""

    def __init__(self, status: int, message: str, remedy: str = "Name one.") -> None:
        super().__init__(message)
        self.status, self.message, self.remedy = status, message, remedy

    def response(self) -> JSONResponse:
        """Return it as an answer."""
        return JSONResponse({"message": self.message, "remedy": self.remedy}, status_code=self.status)


class Archives:
    """The archives of a workspace's final models, each made for one download. None has a name in a folder."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._making = anyio.CapacityLimiter(MAX_MADE_AT_ONCE)
        self._downloads: Counter[str] = Counter()

    async def one(self, project: str, token: str, held: ExitStack) -> IO[bytes]:
        """Return a new archive, which is gone once `held` is closed. Raises RefusalError."""
        if self._downloads[token] >= MAX_DOWNLOADS:
            raise RefusalError(429, f"{MAX_DOWNLOADS} downloads of this token are under way.", "Wait for one to end.")
        self._downloads[token] += 1
        held.callback(self._ended, token)
        folder = self._workspace / "projects" / project / FOLDER
        if not PROJECT.fullmatch(project) or not folder.is_dir():
            raise RefusalError(
                404, f"Project {project[:63]!r} has no final model.", "advance(project=…) goes on to its release."
            )
        return held.enter_context(await anyio.to_thread.run_sync(_archive, folder, limiter=self._making))

    def _ended(self, token: str) -> None:
        self._downloads -= Counter([token])  # and forgets it at nought


class Download(StreamingResponse):
    """An archive as an answer, whole: no part of it can be asked for."""

    def __init__(self, archive: IO[bytes], name: str, held: ExitStack) -> None:
        size = os.fstat(archive.fileno()).st_size
        headers = {"Content-Length": str(size), "Content-Disposition": f'attachment; filename="{name}"'}
        super().__init__(iter(partial(archive.read, PART_BYTES), b""), headers=headers, media_type="application/x-tar")
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Whatever the end was, the archive is gone: sent, refused, broken off or revoked."""
        with self._held:
            if scope["method"] == "HEAD":
                self.body_iterator = _nothing()
            await super().__call__(scope, receive, send)


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


def _archive(folder: Path) -> IO[bytes]:
    """Return a new archive of the files in a folder, without links, to be read from its beginning."""
    with ExitStack() as undone:
        file = undone.enter_context(tempfile.TemporaryFile(prefix="trainwright-release-"))
        with tarfile.open(fileobj=file, mode="w") as archive:
            for one in sorted(folder.rglob("*")):
                if one.is_file() and not one.is_symlink():
                    archive.add(one, arcname=f"{FOLDER}/{one.relative_to(folder)}", filter=_nobodys)
        file.seek(0)
        undone.pop_all()
        return file


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry that says nothing of the server's user."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
