"""`events.jsonl`: the life of a run, one JSON object a line, append-only.

Kinds written by the worker: `started`, `resumed`, `probe`, `epoch`, `checkpoint`, `alert`, `note`, `stopping`,
`failed`, `ended`, `restarted`. A torn last line (the writer was killed) is expected and passed over.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from blake3 import blake3
from pydantic import BaseModel, ConfigDict


class Event(BaseModel):
    """One line of the log."""

    model_config = ConfigDict(frozen=True)

    time: float
    """Unix seconds."""
    kind: str
    data: dict[str, Any] = {}


class EventWriter:
    """Appends to one log, and knows its digest from what it wrote, whatever the file holds by then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._hasher: Any = None
        self._process = 0
        """The one that the hasher belongs to: a fork goes on from what its parent has left in the file."""

    @property
    def digest(self) -> str:
        """Digest of the log; it must have been appended to."""
        return f"blake3:{self._hasher.hexdigest()}"

    def append(self, kind: str, data: dict[str, Any]) -> Event:
        """Append one event and return it; a torn line left by a killed writer is closed first. Raises OSError."""
        event = Event(time=time.time(), kind=kind, data=data)
        line = json.dumps(event.model_dump(), ensure_ascii=False, default=str).encode() + b"\n"
        with self._lock:  # the heartbeat's thread appends too
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                if self._process != os.getpid():
                    self._hasher, self._process = blake3(os.pread(descriptor, size, 0)), os.getpid()
                if size and os.pread(descriptor, 1, size - 1) != b"\n":
                    line = b"\n" + line
                self._hasher.update(line[: os.write(descriptor, line)])
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
