"""Playing walks by their names, in folders that are removed afterwards, and counting what came of them."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import anyio
from projects import walks
from walk import Played, Player


def play(name: str, form: str) -> Played:
    """Play one walk in a folder of its own that is removed afterwards."""
    walk = next(walk for walk in walks() if walk.name == name)
    with tempfile.TemporaryDirectory(prefix="walk-", ignore_cleanup_errors=True) as folder:
        return anyio.run(Player(walk, form, Path(folder).resolve()).play)


def figures(found: list[Played]) -> dict[str, object]:
    """Return what the walks came to, in figures."""
    calls = [played.calls for played in found if played.has_ended] or [0]
    return {
        "walks": len(found),
        "ended": sum(played.has_ended for played in found),
        "stuck": [f"{played.walk} ({played.form})" for played in found if not played.has_ended],
        "calls_median": statistics.median(calls),
        "calls_max": max(calls),
        "repeated": sum(played.repeated for played in found),
    }
