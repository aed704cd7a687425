"""`trainwright fetch`: a project's final model, from a server over HTTP into a folder here."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import quote

import anyio
import typer

from trainwright.server.commands.call import VARIABLE, token, worded
from trainwright.trainer.base.errors import ConfigurationError, ConflictError

FOLDER = "final_model"
SHARE_OF_FREE = 2
"""The archive and its files are there at once."""


def fetch(
    project: Annotated[str, typer.Argument(help="A project with a release")],
    url: Annotated[str, typer.Option("--url", help=f"The server; the token comes from {VARIABLE}.")],
    into: Annotated[Path, typer.Option("--into", help="Folder that is made")] = Path("final_model"),
) -> None:
    """Bring a project's final model from a server over HTTP; it works here without the server."""
    if into.exists():
        raise ConflictError(f"{into} is there already.", remedy="Name another folder with --into, or move it away.")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=".fetched-") as folder:
        archive = Path(folder, "archive.tar")
        try:
            anyio.run(_bring, f"{url.rstrip('/').removesuffix('/mcp')}/releases/{quote(project, safe='')}.tar", archive)
        except Exception as error:
            raise worded(error, url) from error
        try:
            with tarfile.open(archive, mode="r:") as opened:  # as it is served: not compressed
                opened.extractall(folder, filter=_plain)  # noqa: S202 - that is the filter
            shutil.move(Path(folder, FOLDER), into)
        except (tarfile.TarError, FileNotFoundError) as error:
            raise ConfigurationError(
                f"{url} sent no release's archive: {str(error)[:200]}.", remedy="Is it the address of a server?"
            ) from error
    count = sum(path.is_file() for path in into.rglob("*"))
    typer.echo(f"{into}: {count} files of {project}. Its README.md says how it is used.")


def _plain(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Return a file or folder of the release; a link would lead elsewhere. Raises ConfigurationError."""
    parts = PurePosixPath(member.name).parts
    if not (member.isreg() or member.isdir()) or parts[:1] != (FOLDER,) or ".." in parts:
        raise ConfigurationError(
            f"The archive holds {member.name[:80]!r}, which is no plain file of {FOLDER}/.",
            remedy="Ask the server's owner: a release has plain files alone.",
        )
    return tarfile.data_filter(member, folder)


async def _bring(address: str, archive: Path) -> None:
    """Write what an address answers into a file. Raises ConfigurationError with what the server says."""
    from mcp.shared._httpx_utils import create_mcp_http_client  # the SDK's HTTP client, with its patience

    header = {"Authorization": f"Bearer {token()}"}
    async with create_mcp_http_client(header) as http, http.stream("GET", address) as answer:
        if not answer.is_success:
            said = (await answer.aread()).decode(errors="replace")[:500]
            raise ConfigurationError(
                f"{address} answers {answer.status_code}: {said}",
                remedy="Look at --url, at the project's name and at the token (`trainwright tokens list` there).",
            )
        if answer.headers.get("content-encoding"):
            raise ConfigurationError(f"{address} answers compressed, which a server does not.", remedy="Look at --url.")
        free = shutil.disk_usage(archive.parent).free // SHARE_OF_FREE
        with archive.open("wb") as file:
            async for part in answer.aiter_raw():
                file.write(part)
                if file.tell() > free:
                    raise ConfigurationError(
                        f"{address} sends more than {free:,} bytes, half of what is free here.",
                        remedy="Choose a larger disk with --into, or look at --url.",
                    )
