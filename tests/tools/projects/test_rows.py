"""Rows as a projection of the ledger: every column is compared with it, and former workspaces stay whole."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.ledger.events import read_event
from trainwright.tools.ledger.rows import KEYS, ONLY_HERE, columns
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import canonical_json

NAME = "flowers"
At = Callable[[str], Workspace]
Rewrite = Callable[[Workspace, str, Callable[[dict[str, Any]], None]], None]
LEFT_OUT = ("created_at", "ended_at", "idempotency_key", "reason")
"""What entries of the first releases do not tell of rows."""
FORMER = """
DROP TABLE alerts;
ALTER TABLE trials DROP COLUMN further;
PRAGMA user_version = 0;
"""
"""What the former schema did not have yet."""


@pytest.mark.requirement("GATE-3")
def test_every_entry_is_read_as_an_event_that_gives_the_same_bytes(at: At) -> None:
    with at("finished").session() as session:
        entries = list(session.scalars(select(LedgerEntry)))
        events = [read_event(entry.kind, json.loads(entry.body)) for entry in entries]
    assert [canonical_json(event.body()) for event in events if event] == [entry.body for entry in entries]


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_every_column_of_every_row_is_compared_but_those_that_are_declared(at: At) -> None:
    compared: set[str] = set()
    with at("finished").session() as session:
        rows = ProjectFacts(session, NAME).rows
        present = [row for table in KEYS for row in session.scalars(select(table))]
        for row in present:
            session.expunge(row)
            assert rows.differences(row) == []
            for name in set(columns(row)) - ONLY_HERE.get(type(row), set()):
                was = getattr(row, name)
                setattr(row, name, "another")
                (told,) = rows.differences(row)
                named = "has no ledger entry" if name in KEYS[type(row)] else f"{name} was changed in the database"
                assert told.endswith(named)
                setattr(row, name, was)
            compared.add(type(row).__tablename__)
    assert compared == {"projects", "config_versions", "runs", "registered_models"}


@pytest.mark.requirement("GATE-3", "PHASE-1")
def test_a_workspace_of_the_former_schema_is_migrated_and_verifies_whole(at: At, rewrite: Rewrite) -> None:
    def leave_out(body: dict[str, Any]) -> None:
        for name in LEFT_OUT:
            body.pop(name, None)

    workspace = at("diagnosed")
    rewrite(workspace, "", leave_out)
    workspace.close()
    database = workspace.path / "workspace.sqlite"
    with sqlite3.connect(database) as connection:
        connection.executescript(FORMER)
    assert verify_workspace(workspace.path).problems == []
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT COUNT(*) FROM alerts").fetchall() == [(0,)]
        assert connection.execute("SELECT DISTINCT further FROM trials").fetchall() in ([], [("{}",)])
        connection.execute("UPDATE runs SET seed = seed + 1, created_at = '2026-01-01 00:00:00.000000'")
    told = verify_workspace(workspace.path).problems
    assert [problem for problem in told if "seed was changed" in problem]
    assert not [problem for problem in told if "created_at" in problem], "no entry tells it"
