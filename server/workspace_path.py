"""Path of the workspace: the one asked for, else TRAINWRIGHT_HOME, else `./.trainwright`."""

from __future__ import annotations

import os
from pathlib import Path


def workspace_path(asked: Path | None = None) -> Path:
    """Return the workspace folder as an absolute path; it need not exist."""
    named = asked or os.environ.get("TRAINWRIGHT_HOME") or ".trainwright"
    return Path(named).expanduser().resolve()
