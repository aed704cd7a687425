"""New alerts of a workspace, as lines and an exit status: 0 none, 1 a warning, 2 a critical one, 3 it cannot be read.

watch.py --workspace .trainwright --state watch.json
watch.py --workspace .trainwright --seconds 600
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from trainwright.tools.alerts.news import changes_after
from trainwright.tools.training_orchestrator.follow import refresh_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.text import one_line

STATUS = {"info": 0, "warning": 1, "critical": 2}
UNREADABLE = 3
LOOK_SECONDS = 2.0


def main(arguments: list[str]) -> int:
    """Follow the runs, print what is new, and return the exit status."""
    options = _options(arguments)
    if not (options.workspace / "workspace.sqlite").is_file():
        sys.stderr.write(f"There is no workspace at {options.workspace}.\n")
        return UNREADABLE
    try:
        workspace = Workspace.open(options.workspace)
        try:
            return _watch(workspace, options)
        finally:
            workspace.close()
    except TrainwrightError as error:
        sys.stderr.write(f"{error.message} {error.remedy}\n")
        return UNREADABLE


def _watch(workspace: Workspace, options: argparse.Namespace) -> int:
    """Look until something is new or the time is over. Raises TrainwrightError."""
    revision, deadline = _remembered(options.state), time.monotonic() + options.seconds
    while True:
        refresh_workspace(workspace)
        changed = changes_after(workspace, revision)
        revision = max((row.revision for row in changed), default=revision)
        rows = [row for row in changed if _is_wanted(row, options)]
        if rows or time.monotonic() >= deadline:
            break
        time.sleep(LOOK_SECONDS)
    for row in rows:
        said = f"{row.severity} {row.project} {row.run} {row.id} at step {row.step}: {one_line(row.message)}"
        sys.stdout.write(f"{said} ({row.document})\n")
    if options.state is not None:
        options.state.write_text(json.dumps({"revision": revision}), encoding="utf-8")
    return max((STATUS[row.severity] for row in rows), default=0)


def _is_wanted(row: Any, options: argparse.Namespace) -> bool:
    """Return whether an alert stands, in the project and of the severity that were asked for."""
    stands = row.cleared_at is None and row.fixed_by is None
    return stands and options.project in {None, row.project} and STATUS.get(row.severity, 0) >= STATUS[options.severity]


def _remembered(state: Path | None) -> int:
    """Return the revision of the last call; 0 where there was none."""
    if state is None or not state.exists():
        return 0
    try:
        return int(json.loads(state.read_text(encoding="utf-8"))["revision"])
    except (ValueError, KeyError, TypeError):
        return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspace", type=Path, default=Path(".trainwright"))
    parser.add_argument("--project")
    parser.add_argument("--severity", choices=["warning", "critical"], default="warning")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to wait for an alert")
    parser.add_argument("--state", type=Path, help="file that remembers what was printed")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
