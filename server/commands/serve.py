"""`trainwright serve`: MCP over stdio, or over HTTP."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.server.workspace_path import WorkspaceOption, workspace_path

if TYPE_CHECKING:
    from trainwright.server.http.serving import Reach

SIGNING_KEY = "TRAINWRIGHT_SIGNING_KEY"
DEFAULT_PORT = 8765


def serve(
    workspace: WorkspaceOption = None,
    *,
    key: Annotated[
        Path | None, typer.Option("--key", help="Secret key to sign the ledger with; see `trainwright keys new`")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse every tool that may change something.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Over Streamable HTTP, to holders of tokens.")] = False,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; beyond loopback only with TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = DEFAULT_PORT,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key in PEM.")] = None,
    behind_proxy: Annotated[
        str | None, typer.Option("--behind-proxy", help="Address of the proxy that ends TLS: https://NAME")
    ] = None,
) -> None:
    """Serve MCP over stdio, which an agent's client starts; with --http over HTTP, for clients that come to it."""
    sign_with(key)
    path = workspace_path(workspace)
    if SIGNING_KEY in os.environ:  # an unusable key must fail here, not at the first call
        from trainwright.tools.workspace.signing import load_signer

        load_signer(path)
    if http:
        from trainwright.server.http.serving import Reach

        _serve_http(path, Reach(host, port, tls_cert, tls_key, behind_proxy), read_only=read_only)
        return
    gc.disable()  # the imports make little garbage: collecting it would take a tenth of the start-up time
    from trainwright.server.app import build_server

    server = build_server(path, read_only=read_only)
    gc.freeze()
    gc.enable()
    server.run("stdio")


def sign_with(key: Path | None) -> None:
    """Let the ledger be signed by this key, in this process."""
    if key is not None:
        os.environ[SIGNING_KEY] = str(key.expanduser().resolve())


def _serve_http(path: Path, reach: Reach, *, read_only: bool) -> None:
    from trainwright.server.commands.terminal import Terminal
    from trainwright.server.http.serving import HttpServer
    from trainwright.server.http.tokens import Tokens

    terminal = Terminal()
    server = HttpServer(path, reach, read_only=read_only)
    if not Tokens(path).all():
        terminal.line("Nobody has a token yet: `trainwright tokens new NAME --scope operate` makes one.")
    terminal.line(f"MCP at {server.address} until Ctrl-C; runs go on.")
    server.run()
