"""Code that runs in a worker writes nothing into the workspace but its own run's folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.function_text import body_of


def writing() -> None:
    import sqlite3
    import sys
    from pathlib import Path

    from trainwright.trainer.base.errors import UserCodeError
    from trainwright.trainer.user_code import write_guard

    workspace, run = Path(sys.argv[1]), Path(sys.argv[1]) / "projects" / "p" / "runs" / "r"
    settings, ledger = workspace / "settings.yaml", workspace / "workspace.sqlite"
    write_guard.install(run, workspace.parent / "code")
    (run / "own.txt").write_text("state")
    settings.read_text()
    for name, write in {
        "open": lambda: settings.write_text("limits: {trials: 9}"),
        "sqlite3": lambda: sqlite3.connect(ledger),
        "remove": settings.unlink,
        "rename": lambda: (run / "own.txt").rename(ledger),
        "link": lambda: (workspace / "cache.txt").symlink_to(run / "own.txt"),
    }.items():
        try:
            write()
        except UserCodeError as error:
            print(name, error.details["path"])


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_what_writes_outside_of_its_run_is_refused_and_named(tmp_path: Path) -> None:
    run = tmp_path / "workspace" / "projects" / "p" / "runs" / "r"
    run.mkdir(parents=True)
    (run.parents[3] / "settings.yaml").write_text("{}")
    asked = [sys.executable, "-P", "-c", body_of(writing), str(run.parents[3])]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        "open settings.yaml", "sqlite3 workspace.sqlite", "remove settings.yaml", "rename workspace.sqlite",
        "link cache.txt",
    ]  # fmt: skip
    assert (run / "own.txt").read_text() == "state"
