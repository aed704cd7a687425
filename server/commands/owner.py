"""`trainwright approve` and `keys`: the owner reads agents' requests, and answers at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.owner import Grantor, Request, decide, meaning, requests_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.signing import VARIABLE, key_path, model_public_path, new_key, public_path
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.base.text import one_line

MAX_REASON_CHARACTERS = 300


def approve(path: Path, *, yes: Sequence[str], deny: Sequence[str]) -> None:
    """Answer the requests that are named; without any, ask about each that is pending.

    Raises:
        NotFoundError: there is no such request.
        ConflictError: nobody can be asked here, or the settings accept answers in settings.yaml only.
    """
    workspace = Workspace.open(path)
    terminal = Terminal()
    try:
        for name, granted in [*((name, True) for name in yes), *((name, False) for name in deny)]:
            request = decide(workspace, name, granted=granted, by=Grantor.here("terminal", asked=False))
            terminal.line(f"{request}.")
        if not yes and not deny:
            _ask(workspace, terminal)
    finally:
        workspace.close()


def _ask(workspace: Workspace, terminal: Terminal) -> None:
    with workspace.session() as session:
        pending = [request for request in requests_of(session, workspace) if request.state == "pending"]
    terminal.line(f"{len(pending)} requests wait for your answer." if pending else "Nothing waits for your answer.")
    for request in pending:
        _show(terminal, request)
        if sys.stdin.isatty():
            _answer(workspace, terminal, request)
    if pending and not sys.stdin.isatty():
        raise ConflictError(
            "Standard input is not a terminal, so nobody can be asked.",
            remedy="Call `trainwright approve` in a terminal, or answer one with --yes REQUEST or --deny REQUEST.",
        )


def _show(terminal: Terminal, request: Request) -> None:
    terminal.line()
    terminal.line(f"{request.id}  project {request.project}: {request.grant}", "bold")
    terminal.line(f"  {meaning(request.grant)}")
    reason = one_line(request.reason, MAX_REASON_CHARACTERS) or "none"
    terminal.line(f"  Requested {request.asked_at[:19]} UTC. The agent's reason: {reason}")


def _answer(workspace: Workspace, terminal: Terminal, request: Request) -> None:
    terminal.line("Grant it? y or n; anything else leaves it open: ")
    answer = sys.stdin.readline().strip().lower()
    if answer in {"y", "yes", "n", "no"}:
        by = Grantor.here("terminal", asked=True)
        terminal.line(f"{decide(workspace, request.id, granted=answer[0] == 'y', by=by)}.")


# `trainwright keys`: the key that signs the ledger's entries.


def new_signing_key(key: Path | None) -> None:
    """Create a key, and say where both halves lie. Raises as `new_key` does."""
    path = key.expanduser().absolute() if key is not None else key_path()
    signer = new_key(path)
    terminal = Terminal()
    terminal.marked("ok", f"key {signer.public.id}")
    terminal.line(f"      secret: {path}. Keep it secret: nobody else may read it, and no worker process gets it.")
    terminal.line(f"      public: {public_path(path)}. Share it: trainwright verify --public-key FILE")
    terminal.line(f"      public, of models' signatures (OpenSSF model signing): {model_public_path(path)}")
    if path != key_path():
        terminal.line(f"      Servers use it with `trainwright serve --key {path}` or {VARIABLE}.")
