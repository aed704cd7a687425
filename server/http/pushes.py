"""Code roots over HTTP: a client's folder, brought by content to `pushed/NAME` below the owner's first code root.

A request is a tar: `manifest.json` with the size and SHA-256 of every file, then the files that are sent. What the
folder already has is not sent; an answer of 409 names what is wanted. Files take their places when all are there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any, NamedTuple, Self

import anyio
import anyio.to_thread
from filelock import FileLock
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trainwright.server.access import entered, present_access, require_operating
from trainwright.server.http.door import PROJECT, Audit
from trainwright.server.http.placing import digest, folder, put, remove, require_places
from trainwright.server.http.releases import RefusalError, admitted
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.failures import FULL
from trainwright.trainer.base.paths import SKIPPED
from trainwright.trainer.run.directory import write_atomically

ADDRESS = "/roots/{name}"
FOLDER, MANIFEST = "pushed", "manifest.json"
KEPT = "pushes"
"""In the workspace: what was pushed last, by name; locks; files on their way."""
MAX_FILES, MAX_BYTES, MAX_MANIFEST = 20_000, 2 * 2**30, 8 * 2**20
"""Of one folder."""
ROUND_A_FILE = 4096
"""Bytes of an archive beside a file's own: its headers, and what fills up its last block."""
MAX_AT_ONCE = 2
SHARE_OF_FREE = 2
PART = re.compile(r"[^\x00-\x1f\x7f/\\:]+")
"""A name within a path; on Windows `:` and `\\` lead elsewhere."""
MAX_OF_A_PART, MAX_OF_A_PATH = 255, 1023
"""Bytes."""


class File(BaseModel):
    """One file of a manifest."""

    model_config = ConfigDict(extra="forbid", strict=True)

    size: Annotated[int, Field(ge=0, le=MAX_BYTES)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _taken_path(path: str) -> str:
    """Return a path that may be written below a folder. Raises ValueError."""
    parts = PurePosixPath(path).parts
    is_plain = path == "/".join(parts) and all(PART.fullmatch(part) for part in parts)
    is_long = len(path.encode()) > MAX_OF_A_PATH or any(len(part.encode()) > MAX_OF_A_PART for part in parts)
    if not is_plain or is_long or any(part in SKIPPED or part.startswith(".") for part in parts):
        rule = "relative, no hidden names, no `..`, at most 255 bytes a name"
        raise ValueError(f"{path[:80]!r} is no path that is taken: {rule}")
    return path


Taken = Annotated[str, AfterValidator(_taken_path)]
_LIST = TypeAdapter(set[Taken])


class Manifest(BaseModel):
    """All files of a folder, by their paths."""

    model_config = ConfigDict(extra="forbid", strict=True)

    files: dict[Taken, File]

    @model_validator(mode="after")
    def _names_no_file_twice(self) -> Self:
        folders = {str(above) for path in self.files for above in PurePosixPath(path).parents}
        if both := folders & self.files.keys():
            raise ValueError(f"{min(both)[:80]!r} is a file and a folder")
        return self


class Place(NamedTuple):
    """Where a folder is pushed to: below `top`, a code root. What is kept of it is out of reach of user code."""

    top: Path
    name: str
    kept: Path

    @property
    def root(self) -> Path:
        """The folder."""
        return self.top / FOLDER / self.name

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the folder for a while, which is made where it is not there. Raises RefusalError."""
        with ExitStack() as held:
            try:
                root = held.enter_context(folder(self.top, (FOLDER, self.name), make=True))
            except NotADirectoryError:
                told = f"{FOLDER}/{self.name} in the first code root is a link or a file."
                raise RefusalError(409, told, "Ask the owner to remove it.") from None
            yield root

    def before(self) -> set[str]:
        """Return the paths of the push before. Raises RefusalError."""
        path = self.kept / f"{self.name}.json"
        try:
            return _LIST.validate_json(path.read_bytes()) if path.exists() else set()
        except ValidationError:
            told = f"The list of the push before, {KEPT}/{path.name} in the workspace, is damaged."
            raise RefusalError(409, told, "Ask the owner to remove it: what was pushed before then stays.") from None

    def room(self) -> int:
        """Return the bytes that a push may take, of the disk of the workspace or that of the folder."""
        return min(shutil.disk_usage(one).free for one in (self.kept, self.top)) // SHARE_OF_FREE

    def require_room(self, size_bytes: int) -> None:
        """Refuse what would fill the disk: copies of one file are sent once. Raises RefusalError."""
        if size_bytes > self.room():
            told = f"{size_bytes:,} bytes are to be written, and half the free disk is {self.room():,}."
            raise RefusalError(413, told, "Push less, or ask the owner to free some of it.")

    def keep(self, paths: Collection[str]) -> None:
        """Write down what the folder has from pushes. Raises StorageError."""
        write_atomically(self.kept / f"{self.name}.json", json.dumps(sorted(paths)).encode())


def pushes(workspace: Path, security: TransportSecuritySettings, *, read_only: bool) -> Route:
    """Return the route that takes `POST /roots/NAME` from holders of tokens that operate in all projects."""
    guard, audit, making = TransportSecurityMiddleware(security), Audit(workspace), anyio.CapacityLimiter(MAX_AT_ONCE)

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
            except (RefusalError, OSError) as error:
                line.answered({"isError": True})
                return (error if isinstance(error, RefusalError) else _failed(error)).response()
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
    place = await anyio.to_thread.run_sync(_place, workspace, name)
    most = min(MAX_BYTES + MAX_FILES * ROUND_A_FILE, place.room())
    with tempfile.TemporaryFile(dir=place.kept) as file:
        async for part in request.stream():
            file.write(part)
            if file.tell() > most:
                raise RefusalError(
                    413, f"More than {most:,} bytes: more than a folder may have, or half the free disk."
                )
        file.seek(0)
        return await anyio.to_thread.run_sync(_received, file, place)


def _place(workspace: Path, name: str) -> Place:
    """Return where a code root is pushed to, which calls name as `pushed/NAME`. Raises RefusalError."""
    from trainwright.tools.workspace import Workspace

    opened = Workspace.open(workspace)
    try:
        roots = opened.settings.allowed_roots(opened.path)
    finally:
        opened.close()
    if not roots:
        raise RefusalError(403, "The owner allows no code root.", "Ask for one in settings.yaml: code_roots.")
    kept = workspace / KEPT
    for one in (kept, roots[0]):
        one.mkdir(parents=True, exist_ok=True)
    return Place(roots[0], name, kept)


def _received(file: IO[bytes], place: Place) -> dict[str, Any]:
    """Check an archive, and put its files into place; or say which are wanted. Raises RefusalError."""
    try:
        with (
            FileLock(place.kept / f"{place.name}.lock"),
            tempfile.TemporaryDirectory(dir=place.kept, prefix=f"{place.name}.") as staged,
            tarfile.open(fileobj=file, mode="r:") as archive,
        ):
            members = _members(archive)
            manifest = _manifest(archive, next(members, None))
            sent = _staged(archive, members, manifest, Path(staged))
            with place.opened() as root:
                there = _digests(root, {one.size for one in manifest.files.values()})
                known = {*sent, *there.values()}
                wanted = [path for path, one in manifest.files.items() if one.sha256 not in known]
                if wanted:
                    return {"wanted": wanted}
                found = {digest: place.root / path for path, digest in there.items()} | sent
                changed = {path: one for path, one in manifest.files.items() if there.get(path) != one.sha256}
                place.require_room(sum(one.size for one in changed.values()))
                return _placed(manifest, place, root, _copied(changed, found, Path(staged)))
    except tarfile.TarError as error:
        raise RefusalError(400, f"That is no archive: {str(error)[:120]}.", "Use `trainwright push`.") from error
    except ValueError as error:
        raise RefusalError(400, f"That cannot be read: {str(error)[:120]}.", "Use `trainwright push`.") from error


def _failed(error: OSError) -> RefusalError:
    """Return the refusal for what the server's disk does not let it do."""
    if error.errno in FULL:
        return RefusalError(507, "The server's disk has no room for the folder.", "Ask the owner to free some of it.")
    told = f"{Path(os.fsdecode(error.filename or '.')).name[:80]!r} in the folder there: {error.strerror}."
    return RefusalError(409, told, "Ask the owner to look at it there, and push again.")


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members one by one. Raises RefusalError: too many, or one that is no plain file."""
    for count, member in enumerate(archive):
        if count > MAX_FILES:
            raise RefusalError(413, f"More than {MAX_FILES} files.", "Push the code's own folder.")
        if not member.isreg() or member.issparse():
            raise RefusalError(400, f"{member.name[:80]!r} is no plain file.", "Links and devices are not taken.")
        yield member


def _manifest(archive: tarfile.TarFile, member: tarfile.TarInfo | None) -> Manifest:
    """Return the manifest, every path of which may be written. Raises RefusalError."""
    held = archive.extractfile(member) if member and member.name == MANIFEST and member.size <= MAX_MANIFEST else None
    try:
        manifest = Manifest.model_validate_json(held.read()) if held is not None else None
    except ValidationError as error:
        raise RefusalError(
            400, f"The manifest is wrong: {error.errors()[0]['msg'].removeprefix('Value error, ')[:200]}."
        ) from None
    if manifest is None:
        raise RefusalError(400, f"The archive does not begin with {MANIFEST}.", "Use `trainwright push`.")
    if len(manifest.files) > MAX_FILES or sum(one.size for one in manifest.files.values()) > MAX_BYTES:
        raise RefusalError(413, f"A folder has at most {MAX_FILES} files and {MAX_BYTES:,} bytes.")
    return manifest


def _staged(
    archive: tarfile.TarFile, members: Iterator[tarfile.TarInfo], manifest: Manifest, staged: Path
) -> dict[str, Path]:
    """Write the files that were sent aside, and return them by digest. Raises RefusalError for one that is another."""
    found: dict[str, Path] = {}
    expected = dict(manifest.files)
    for member in members:
        wanted, held = expected.pop(member.name, None), archive.extractfile(member)
        if wanted is None or held is None or member.size != wanted.size:
            raise RefusalError(400, f"{member.name[:80]!r} is not in the manifest, of another size, or sent twice.")
        place = staged / wanted.sha256
        with place.open("wb") as file:
            shutil.copyfileobj(held, file)
        if digest(place) != wanted.sha256:
            raise RefusalError(400, f"{member.name[:80]!r} is not the file that the manifest names.", "Push again.")
        found[wanted.sha256] = place
    return found


def _digests(root: int, sizes: Collection[int]) -> dict[str, str]:
    """Return the digests of a folder's plain files of these sizes, by path; a run may take them away meanwhile."""
    found = {}
    for above, _, names, here in os.fwalk(".", dir_fd=root):
        for name in names:
            with suppress(OSError):
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode) and facts.st_size in sizes:
                    found[(PurePosixPath(above) / name).as_posix()] = digest(name, at=here)
    return found


def _copied(changed: dict[str, File], found: dict[str, Path], staged: Path) -> dict[str, Path]:
    """Copy files aside, by their paths: a place may be that of another's content. Raises RefusalError."""
    copies = {path: staged / f"new-{count}" for count, path in enumerate(changed)}
    for path, copy in copies.items():
        wanted = changed[path].sha256
        if digest(found[wanted], copy) != wanted:
            raise RefusalError(409, f"{path[:80]!r} was changed in the folder meanwhile.", "Push again.")
    return copies


def _placed(manifest: Manifest, place: Place, root: int, copies: dict[str, Path]) -> dict[str, Any]:
    """Put every file into its place, and remove those of the push before that are gone. Raises RefusalError."""
    gone = place.before() - set(manifest.files)
    require_places(place.root, copies, gone)
    place.keep({*gone, *manifest.files})
    removed = sum(remove(root, path) for path in gone)
    for path, copy in copies.items():
        put(copy, root, path)
    place.keep(manifest.files)
    counts = {"files": len(manifest.files), "changed": len(copies), "removed": removed}
    return {"code_root": f"{FOLDER}/{place.name}", **counts}
