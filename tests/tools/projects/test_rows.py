"""Rows as a projection of the ledger: every column is compared with it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sqlalchemy import select

from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.ledger.events import read_event
from trainwright.tools.ledger.rows import KEYS, ONLY_HERE, columns
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import canonical_json

NAME = "flowers"
At = Callable[[str], Workspace]


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
