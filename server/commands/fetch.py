"""`trainwright fetch`: a project's final model, from a server over HTTP into a folder here."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Annotated

import anyio
import typer

from trainwright.server.commands.call import VARIABLE, token, worded
from trainwright.trainer.base.errors import ConfigurationError, ConflictError


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
            anyio.run(_bring, f"{url.rstrip('/').removesuffix('/mcp')}/releases/{project}.tar", archive)
        except Exception as error:
            raise worded(error, url) from error
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        shutil.move(Path(folder, "final_model"), into)
    count = sum(path.is_file() for path in into.rglob("*"))
    typer.echo(f"{into}: {count} files of {project}. Its README.md says how it is used.")


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
        with archive.open("wb") as file:
            async for part in answer.aiter_bytes():
                file.write(part)
