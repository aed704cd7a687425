"""Code roots over HTTP: a client's folder, brought by content to `pushed/NAME` below the owner's first code root.

A request is a tar: `manifest.json` with the size and SHA-256 of every file, then the files that are sent. What the
folder already has is not sent; an answer of 409 names what is wanted. Files take their places when all are there.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Annotated, Any

import anyio
import anyio.to_thread
from filelock import FileLock
from mcp.server.transport_security import TransportSecurityMiddleware
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainwright.server.access import entered, present_access, require_operating
from trainwright.server.http.door import PROJECT, Audit
from trainwright.server.http.releases import RefusalError, admitted
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.paths import SKIPPED

if TYPE_CHECKING:
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.requests import Request

ADDRESS = "/roots/{name}"
FOLDER, MANIFEST, LIST = "pushed", "manifest.json", ".pushed.json"
MOST_FILES, MOST_BYTES, MOST_MANIFEST = 20_000, 2 * 2**30, 8 * 2**20
"""Of one folder."""
ROUND_A_FILE = 4096
"""Bytes of an archive beside a file's own: its headers, and what fills up its last block."""
MOST_AT_ONCE = 2
SHARE_OF_FREE = 2
PART = re.compile(r"[^\x00-\x1f\x7f/\\:]{1,255}")
"""A name within a path; on Windows `:` and `\\` lead elsewhere."""


class File(BaseModel):
    """One file of a manifest."""

    model_config = ConfigDict(extra="forbid", strict=True)

    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
    """All files of a folder, by their paths."""

    model_config = ConfigDict(extra="forbid", strict=True)

    files: dict[str, File]


def pushes(workspace: Path, security: TransportSecuritySettings, *, read_only: bool) -> Route:
    """Return the route that takes `POST /roots/NAME` from holders of tokens that operate in all projects."""
    guard, audit, making = TransportSecurityMiddleware(security), Audit(workspace), anyio.CapacityLimiter(MOST_AT_ONCE)

    async def answer(request: Request) -> Response:
        holder = await admitted(request, guard)
        if isinstance(holder, Response):
            return holder
        with entered(holder.kept.access, read_only=read_only), audit.line("roots", {}) as line:
            try:
                _require_pushing()
                async with making:
                    facts = await _taken(request, workspace)
            except TrainwrightError as error:
                line.answered({"isError": True})
                return JSONResponse({"message": error.message, "remedy": error.remedy}, status_code=403)
            except RefusalError as error:
                line.answered({"isError": True})
                return error.response()
            line.answered({})
            return JSONResponse(facts, status_code=409 if "wanted" in facts else 200)

    return Route(ADDRESS, answer, methods=["POST"])


def _require_pushing() -> None:
    """Refuse who may not operate, and who is bound to projects: others may use the same folder."""
    require_operating("push")
    access = present_access()
    if access.projects:
        raise RefusalError(403, f"The token {access.token!r} is bound to projects, and a code root may serve others.")


async def _taken(request: Request, workspace: Path) -> dict[str, Any]:
    """Return what came of a push. Raises RefusalError or TrainwrightError."""
    name = request.path_params["name"]
    if not PROJECT.fullmatch(name):
        raise RefusalError(400, f"{name[:63]!r} is no name of a folder.", "1 to 63 of a-z, 0-9, - and _.")
    root = await anyio.to_thread.run_sync(_root, workspace, name)
    most = min(MOST_BYTES + MOST_FILES * ROUND_A_FILE, shutil.disk_usage(workspace).free // SHARE_OF_FREE)
    with tempfile.TemporaryFile(prefix="trainwright-push-") as file:
        async for part in request.stream():
            file.write(part)
            if file.tell() > most:
                raise RefusalError(
                    413, f"More than {most:,} bytes: more than a folder may have, or half the free disk."
                )
        file.seek(0)
        return await anyio.to_thread.run_sync(_received, file, root)


def _root(workspace: Path, name: str) -> Path:
    """Return the folder of a pushed code root, which calls name as `pushed/NAME`. Raises RefusalError."""
    from trainwright.tools.workspace import Workspace

    opened = Workspace.open(workspace)
    try:
        roots = opened.settings.allowed_roots(opened.path)
    finally:
        opened.close()
    if not roots:
        raise RefusalError(403, "The owner allows no code root.", "Ask for one in settings.yaml: code_roots.")
    above = roots[0] / FOLDER
    above.mkdir(parents=True, exist_ok=True)
    if above.resolve() != above or (above / name).is_symlink():
        raise RefusalError(409, f"{FOLDER}/{name} in the first code root is a link.", "Ask the owner to remove it.")
    return above / name


def _received(file: IO[bytes], root: Path) -> dict[str, Any]:
    """Check an archive, and put its files into place; or say which are wanted. Raises RefusalError."""
    try:
        with (
            FileLock(root.parent / f".{root.name}.lock"),
            tempfile.TemporaryDirectory(dir=root.parent, prefix=f".{root.name}-") as staged,
            tarfile.open(fileobj=file, mode="r:") as archive,
        ):
            members = _members(archive)
            manifest = _manifest(archive, next(members, None))
            sent = _staged(archive, members, manifest, Path(staged))
            there = _digests(root)
            known = {*sent, *there.values()}
            wanted = [path for path, one in manifest.files.items() if one.sha256 not in known]
            if wanted:
                return {"wanted": wanted}
            return _placed(manifest, root, sent, there, Path(staged))
    except tarfile.TarError as error:
        raise RefusalError(400, f"That is no archive: {str(error)[:120]}.", "Use `trainwright push`.") from error
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise RefusalError(409, f"A folder stands where a file is to be, or a link: {error.filename}.") from error


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members one by one. Raises RefusalError: too many, or one that is no plain file."""
    for count, member in enumerate(archive):
        if count > MOST_FILES:
            raise RefusalError(413, f"More than {MOST_FILES} files.", "Push the code's own folder.")
        if not member.isreg() or member.issparse():
            raise RefusalError(400, f"{member.name[:80]!r} is no plain file.", "Links and devices are not taken.")
        yield member


def _manifest(archive: tarfile.TarFile, member: tarfile.TarInfo | None) -> Manifest:
    """Return the manifest, every path of which may be written. Raises RefusalError."""
    held = archive.extractfile(member) if member and member.name == MANIFEST and member.size <= MOST_MANIFEST else None
    try:
        manifest = Manifest.model_validate_json(held.read()) if held is not None else None
    except ValidationError as error:
        raise RefusalError(400, f"The manifest is wrong: {error.errors()[0]['msg'][:120]}.") from None
    if manifest is None:
        raise RefusalError(400, f"The archive does not begin with {MANIFEST}.", "Use `trainwright push`.")
    if len(manifest.files) > MOST_FILES or sum(one.size for one in manifest.files.values()) > MOST_BYTES:
        raise RefusalError(413, f"A folder has at most {MOST_FILES} files and {MOST_BYTES:,} bytes.")
    for path in manifest.files:
        parts = PurePosixPath(path).parts
        is_plain = path == "/".join(parts) and all(PART.fullmatch(part) for part in parts) and len(path) < 1024
        if not is_plain or any(part in SKIPPED or part.startswith(".") for part in parts):
            raise RefusalError(400, f"{path[:80]!r} is no path that is taken: relative, no hidden names, no `..`.")
    return manifest


def _staged(
    archive: tarfile.TarFile, members: Iterator[tarfile.TarInfo], manifest: Manifest, staged: Path
) -> dict[str, Path]:
    """Write the files that were sent aside, and return them by digest. Raises RefusalError for one that is another."""
    found: dict[str, Path] = {}
    for member in members:
        wanted, held = manifest.files.get(member.name), archive.extractfile(member)
        if wanted is None or held is None or member.size != wanted.size:
            raise RefusalError(400, f"{member.name[:80]!r} is not in the manifest, or of another size.")
        place = staged / wanted.sha256
        with place.open("wb") as file:
            shutil.copyfileobj(held, file)
        if _digest(place) != wanted.sha256:
            raise RefusalError(400, f"{member.name[:80]!r} is not the file that the manifest names.", "Push again.")
        found[wanted.sha256] = place
    return found


def _digests(root: Path) -> dict[str, str]:
    """Return the digests of a folder's plain files, by path."""
    files = (one for one in root.rglob("*") if one.is_file() and not one.is_symlink())
    return {one.relative_to(root).as_posix(): _digest(one) for one in files}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _placed(
    manifest: Manifest, root: Path, sent: dict[str, Path], there: dict[str, str], staged: Path
) -> dict[str, Any]:
    """Put every file into its place, and remove those of the push before that are gone. Raises RefusalError."""
    root.mkdir(exist_ok=True)
    kept = root / LIST
    before = set(json.loads(kept.read_text(encoding="utf-8"))) if kept.is_file() else set()
    changed = {path: one for path, one in manifest.files.items() if there.get(path) != one.sha256}
    found = {digest: root / path for path, digest in there.items()} | sent
    for count, one in enumerate(changed.values()):  # copied first: a place may be that of another's content
        shutil.copyfile(found[one.sha256], staged / f"new-{count}")
    gone = before - set(manifest.files)
    for path in gone:
        _inside(root, path).unlink(missing_ok=True)
    for count, path in enumerate(changed):
        place = _inside(root, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        (staged / f"new-{count}").replace(place)
    (staged / LIST).write_text(json.dumps(sorted(manifest.files)), encoding="utf-8")
    (staged / LIST).replace(kept)
    counts = {"files": len(manifest.files), "changed": len(changed), "removed": len(gone)}
    return {"code_root": f"{FOLDER}/{root.name}", **counts}


def _inside(root: Path, path: str) -> Path:
    """Return the place of a path. Raises RefusalError: what a run has put there leads elsewhere."""
    place = root / path
    if place.parent.resolve() != root.resolve() / PurePosixPath(path).parent:
        raise RefusalError(409, f"{path[:80]!r} leads through a link.", "Ask the owner to remove it there.")
    return place
