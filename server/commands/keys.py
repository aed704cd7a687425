"""`trainwright keys`: the key that signs the ledger's entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.workspace.signing import VARIABLE, key_path, model_public_path, new_key, public_path

if TYPE_CHECKING:
    from pathlib import Path


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
