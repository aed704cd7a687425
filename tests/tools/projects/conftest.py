"""Decisions of a real project, rewritten by hand; another version of a package."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import NAME

from trainwright.tools.ledger import copy_all_forward
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.canonical import canonical_json, digest_json

Edit = Callable[[dict[str, Any]], None]
Rewrite = Callable[[Workspace, str, Edit], None]


def rewrite_decision(workspace: Workspace, phase: str, edit: Edit) -> None:
    """Edit a gate decision as someone with the file and our source would: every hash, row and copy computed anew.

    Without a phase, edit every entry of the ledger.
    """
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        rows = connection.execute("SELECT sequence, time, project, kind, body FROM ledger ORDER BY sequence").fetchall()
        previous = "genesis"
        for sequence, time, project, kind, text in rows:
            body = json.loads(text)
            if not phase:  # of whatever kind
                edit(body)
            if kind == "gate" and phase in {"", body["phase"]}:
                edit(body)
            content = [sequence, time, project, kind, canonical_json(body), previous]
            digest = digest_json(content)
            connection.execute(
                "UPDATE ledger SET body = ?, previous = ?, digest = ? WHERE sequence = ?",
                (canonical_json(body), previous, digest, sequence),
            )
            previous = digest
        for _, sql in triggers:
            connection.execute(sql)
    for copy in workspace.path.glob("projects/*/ledger.jsonl"):
        copy.unlink()
    copy_all_forward(workspace)


@pytest.fixture(scope="module", autouse=True)
def _blank_pictures() -> Iterator[None]:
    """No test here looks at what a picture shows."""
    with blank_pictures():
        yield


@pytest.fixture
def rewrite() -> Rewrite:
    """Return a function that edits the decisions on a phase in ledger, index and plain copies."""
    return rewrite_decision


@pytest.fixture
def created_with(at: Callable[[str], Workspace]) -> Callable[..., Workspace]:
    """Return a function that opens the project at a stage as if it had been created with other facts."""

    def opened(stage: str, **changes: Any) -> Workspace:
        workspace = at(stage)
        with workspace.session() as session:
            row = session.get(Project, NAME)
            assert row is not None
            for name, value in changes.items():
                setattr(row, name, value)
        rewrite_decision(workspace, "", lambda body: body.update(changes) if "intent" in body else None)
        return Workspace.open(workspace.path)

    return opened


@pytest.fixture
def other_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let this process and its workers find another version of a package that every run imports."""

    def install() -> None:
        record = tmp_path / "numpy-9.9.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))

    return install
