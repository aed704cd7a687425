"""`trainwright push`: a folder of code and data from here to a server over HTTP, by content."""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections.abc import AsyncIterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any

import anyio
import typer

from trainwright.server.commands.call import VARIABLE, token, worded
from trainwright.trainer.base.canonical import sha256_of_file
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import SKIPPED
from trainwright.trainer.base.secret_kinds import known_in

SECRET_NAMES = ("*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*", "credentials*.json")
MAX_SEARCHED = 2**20
"""Bytes of a file that is searched for secrets: larger ones are data."""
PART_BYTES = 2**18
MAX_NAMED = 8
TRIES = 3
"""Files may change while they are sent."""


def push(
    folder: Annotated[Path, typer.Argument(help="Folder of the code, with the data that it names")] = Path(),
    *,
    url: Annotated[str, typer.Option("--url", help=f"The server; the token comes from {VARIABLE}.")],
    name: Annotated[str | None, typer.Option("--name", help="Its name there; default: the folder's")] = None,
) -> None:
    """Copy a folder of code to a server over HTTP, by content: what it has already is not sent. Secrets stay here."""
    root = folder.expanduser().resolve()
    if not root.is_dir():
        raise ConfigurationError(f"{folder} is no folder.", remedy="Name the folder of your code.")
    called = name or re.sub(r"[^a-z0-9_-]+", "-", root.name.lower()).strip("-_")[:63] or "code"
    files, left = chosen(root)
    manifest = {path: {"size": one.stat().st_size, "sha256": sha256_of_file(one)} for path, one in files.items()}
    address = f"{url.rstrip('/').removesuffix('/mcp')}/roots/{called}"
    try:
        facts = anyio.run(_pushed, address, files, manifest)
    except Exception as error:
        raise worded(error, url) from error
    for path, why in list(left.items())[:MAX_NAMED]:
        typer.echo(f"left here: {path} ({why})", err=True)
    if len(left) > MAX_NAMED:
        typer.echo(f"left here: {len(left) - MAX_NAMED} more", err=True)
    counts = f"{facts['files']} files, {facts['changed']} changed, {facts['removed']} removed"
    typer.echo(f'{counts}. In calls there: code_root="{facts["code_root"]}", and paths below it.')


def chosen(root: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the files of a folder that are sent, by path, and why each other one is not; hidden ones are not named."""
    sent, left = {}, {}
    for one in sorted(root.rglob("*")):
        path = one.relative_to(root).as_posix()
        if any(part in SKIPPED or part.startswith(".") for part in PurePosixPath(path).parts):
            continue
        if one.is_symlink():
            left[path] = "a link"
        elif one.is_file():
            if (why := _secret(one)) is None:
                sent[path] = one
            else:
                left[path] = why
    return sent, left


def _secret(file: Path) -> str | None:
    """Return why a file is not sent: its name is that of a key, or it holds a secret; None for others."""
    if any(fnmatch(file.name.lower(), pattern) for pattern in SECRET_NAMES):
        return "named as a secret is"
    if file.stat().st_size > MAX_SEARCHED:
        return None
    found = next(known_in(file.read_bytes().decode("utf-8", errors="replace")), None)
    return None if found is None else f"holds a secret: {found.kind}"


async def _pushed(address: str, files: dict[str, Path], manifest: dict[str, Any]) -> dict[str, Any]:
    """Send the manifest, then what the server wants. Raises ConfigurationError with what it says."""
    from mcp.shared._httpx_utils import create_mcp_http_client  # the SDK's HTTP client, with its patience

    wanted: list[str] = []
    async with create_mcp_http_client({"Authorization": f"Bearer {token()}"}) as http:
        for _ in range(TRIES):
            with tempfile.TemporaryFile() as held:
                _archive(held, {path: files[path] for path in wanted}, manifest)
                answer = await http.post(address, content=_parts(held))
            facts = answer.json() if "json" in answer.headers.get("content-type", "") else {}
            if answer.is_success:
                return dict(facts)
            wanted = [path for path in facts.get("wanted", []) if path in files]
            if not wanted:
                break
    raise ConfigurationError(
        f"{address} answers {answer.status_code}: {facts.get('message') or answer.text[:300]}",
        remedy=facts.get("remedy") or "Look at --url, at --name and at the token (`trainwright tokens list` there).",
    )


def _archive(held: IO[bytes], files: dict[str, Path], manifest: dict[str, Any]) -> None:
    with tarfile.open(fileobj=held, mode="w") as archive:
        _add(archive, "manifest.json", io.BytesIO(written := json.dumps({"files": manifest}).encode()), len(written))
        sent = set()
        for path, one in files.items():
            if manifest[path]["sha256"] not in sent:
                sent.add(manifest[path]["sha256"])
                with one.open("rb") as file:
                    _add(archive, path, file, manifest[path]["size"])
    held.seek(0)


def _add(archive: tarfile.TarFile, path: str, file: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(path)
    member.size = size
    archive.addfile(member, file)


async def _parts(held: IO[bytes]) -> AsyncIterator[bytes]:
    for part in iter(lambda: held.read(PART_BYTES), b""):
        yield part
