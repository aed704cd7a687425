"""Calls, characters and seconds of a player: from its transcript, since no server writes what its answers were.

A transcript is `calls.jsonl` or `tw-log.jsonl` in the task's folder: one JSON object for each answer, with `tool` (or
`of`), `seconds`, and `characters` (or `chars`, or the `text` itself). A line whose `verb` is not `call` is a document
or a list that was read: its characters count, and it is no call. Without one, only the ledger's times are known.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

TRANSCRIPTS = ("calls.jsonl", "tw-log.jsonl")


@dataclass(frozen=True)
class Counts:
    """What playing cost; None: not known."""

    calls: int | None = None
    characters: int | None = None
    seconds: float | None = None
    """From the first to the last entry of the ledger, or what the transcript's calls took where that is longer."""


def counts(folder: Path, entries_before: int = 0) -> Counts:
    """Return what the transcript below a task's folder, and the ledgers there after so many entries, say."""
    seconds = [_ledger_seconds(path, entries_before) for path in databases(folder)]
    paths = [path for name in TRANSCRIPTS for path in sorted(folder.rglob(name))]
    if not paths:
        return Counts(seconds=max(seconds, default=None))
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line]
    spent = sum(float(line.get("seconds") or 0.0) for line in lines)
    calls = sum(line.get("verb", "call") == "call" for line in lines)
    return Counts(calls, sum(map(_characters, lines)), round(max([spent, *seconds]), 1))


def databases(folder: Path) -> list[Path]:
    """Return the workspaces' databases below a folder."""
    return sorted(folder.rglob("workspace.sqlite"))


def entries(path: Path) -> list[tuple[int, str]]:
    """Return number and time of all entries of a workspace's ledger."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute("SELECT sequence, time FROM ledger ORDER BY sequence").fetchall()
    finally:
        connection.close()


def _ledger_seconds(path: Path, entries_before: int) -> float:
    times = [datetime.fromisoformat(time) for _, time in entries(path)[entries_before:]]
    return round((max(times) - min(times)).total_seconds(), 1) if times else 0.0


def _characters(line: dict[str, Any]) -> int:
    found = line.get("characters", line.get("chars"))
    return int(found) if found is not None else len(str(line.get("text", "")))
