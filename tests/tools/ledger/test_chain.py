"""No entry of the ledger can be changed, removed or inserted without being found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from trainwright.tools.ledger import append, broken_links, entries
from trainwright.tools.ledger.chain import digest_of
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.errors import NotFoundError


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    with opened.session() as session:
        for number in range(6):
            append(session, "p", "test", {"number": number, "text": "ä ö \u2028"})
    yield opened
    opened.close()


def forge(workspace: Workspace, statement: str) -> None:
    """Do what someone with the file can do: drop the triggers and write."""
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.executescript("DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete;")
        connection.execute(statement)


@pytest.mark.requirement("GATE-3")
def test_an_untouched_chain_is_whole_and_reads_back(workspace: Workspace) -> None:
    with workspace.session() as session:
        assert broken_links(session) == []
        assert [body["number"] for _, body in entries(session, "p")] == list(range(6))


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("statement", ["UPDATE ledger SET kind = 'x'", "DELETE FROM ledger"])
def test_the_database_itself_refuses_to_change_an_entry(workspace: Workspace, statement: str) -> None:
    with pytest.raises(DatabaseError, match="append-only"), workspace.session() as session:
        session.execute(text(statement))


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("column", ["time", "project", "kind", "body", "previous", "digest"])
def test_a_changed_column_is_found_and_named(workspace: Workspace, column: str) -> None:
    forge(workspace, f"UPDATE ledger SET {column} = '{{}}' WHERE sequence = 3")
    with workspace.session() as session:
        assert any("entry 3" in problem or "entry 4" in problem for problem in broken_links(session))


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("sequence", [1, 3, 5])
def test_a_removed_entry_is_found(workspace: Workspace, sequence: int) -> None:
    forge(workspace, f"DELETE FROM ledger WHERE sequence = {sequence}")
    with workspace.session() as session:
        assert any(f"entry {sequence} is missing" in problem for problem in broken_links(session))


@pytest.mark.requirement("GATE-3")
def test_a_recomputed_entry_breaks_the_next_link(workspace: Workspace) -> None:
    with workspace.session() as session:
        entry = session.get(LedgerEntry, 3)
        assert entry is not None
        session.expunge(entry)
        entry.body = '{"number":99}'
        digest = digest_of(entry)
    forge(workspace, f"UPDATE ledger SET body = '{entry.body}', digest = '{digest}' WHERE sequence = 3")
    with workspace.session() as session:
        assert broken_links(session) == ["ledger entry 4 does not continue the entry before it"]


@pytest.mark.requirement("GATE-3")
def test_verify_refuses_a_folder_that_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="not a workspace"):
        verify_workspace(tmp_path)
    assert list(tmp_path.iterdir()) == []
