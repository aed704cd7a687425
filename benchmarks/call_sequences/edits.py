"""Edits of a run's record by hand, as small as can be."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from world import World

RUN_FILES = ("run.json", "status.json", "events.jsonl", "artifacts/summary.json", "checkpoint", "metrics.sqlite")


def edited_file(run: Path, what: str) -> Path | None:
    """Return the file to edit; None when the run has none such."""
    found = [run / what] if what != "checkpoint" else sorted(run.glob("checkpoints/*/model.safetensors"))[:1]
    return found[0] if found and found[0].is_file() else None


def edit(path: Path, what: str) -> None:
    """Change as little as can be: a space, a byte, a digit."""
    if what == "metrics.sqlite":
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE metrics SET value = value + 0.001 WHERE key = (SELECT min(key) FROM metrics)")
        connection.close()
    elif what == "checkpoint":
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(bytes(content))
    else:
        path.write_bytes(path.read_bytes() + b"\n ")


def move_edits(world: World, release: int) -> None:
    """Note that an earlier final model has moved into a folder of its own, with whatever was edited in it."""
    for path, edited in list(world.edits.items()):
        name = path.relative_to(world.project)
        if name.parts[0] == "final_model":
            moved = world.project / "releases" / str(release) / name
            del world.edits[path]
            world.edits[moved] = type(edited)(moved, edited.before, (moved.name,))
            world.model.damaged.discard(str(name))
