"""Small text files beside the user's data that the engine reads for its record: DVC's files, cards.

No user code sees them, so they do not count as opened by the run (user_code/opened_files.py).
"""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 1 << 20


def read_beside(path: Path) -> str:
    """Return the file's text, its first MiB; empty where there is none, or it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
