"""`events.jsonl`: the life of a run, one JSON object a line, append-only.

Kinds written by the worker: `started`, `resumed`, `probe`, `epoch`, `checkpoint`, `alert`, `note`, `stopping`,
`failed`, `ended`, `restarted`. A torn last line (the writer was killed) is expected and passed over.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """One line of the log."""

    model_config = ConfigDict(frozen=True)

    time: float
    """Unix seconds."""
    kind: str
    data: dict[str, Any] = {}


def append_event(path: Path, kind: str, data: dict[str, Any]) -> Event:
    """Append one event and return it; a torn line left by a killed writer is closed first. Raises OSError."""
    event = Event(time=time.time(), kind=kind, data=data)
    line = json.dumps(event.model_dump(), ensure_ascii=False, default=str).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
    return event


def read_events(path: Path) -> list[Event]:
    """Return all whole events in order; an absent file reads as none, a torn line is passed over."""
    events: list[Event] = []
    if not path.exists():
        return events
    for line in path.read_bytes().split(b"\n"):
        try:
            events.append(Event.model_validate_json(line))
        except ValueError:
            continue
    return events
