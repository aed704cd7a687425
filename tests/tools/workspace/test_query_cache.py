"""What looks came to is kept by each server, and never outlives what it follows from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.ledger import append
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import note_whole_workspace
from trainwright.trainer.base.errors import NotFoundError

pytestmark = pytest.mark.requirement("MCP-5", "GATE-3")
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "metrics": ["accuracy"]}


class Server:
    """One server's looks, counted."""

    def __init__(self, path: Path) -> None:
        self.workspace = Workspace.open(path)
        self.looks = 0

    def look(self, project: str = "one", *, whole: bool = False) -> None:
        def make() -> None:
            self.looks += 1
            if whole:
                note_whole_workspace()

        with self.workspace.refreshed().session() as session:
            self.workspace.kept.answer(session, project, whole, make)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    both = Server(tmp_path / "workspace"), Server(tmp_path / "workspace")
    for name in ("one", "two"):
        projects.create_project(both[0].workspace, name, intent="look", goal=GOAL, config=CONFIG)
    yield both
    for server in both:
        server.workspace.close()


def test_a_look_is_kept_until_another_server_writes_of_its_project(servers: tuple[Server, Server]) -> None:
    looking, writing = servers
    looking.look()
    looking.look()
    assert looking.looks == 1
    for project, looks in (("two", 1), ("one", 2)):
        with writing.workspace.session() as session:
            append(session, project, "note", {})
        looking.look()
        assert looking.looks == looks


def test_a_look_that_follows_from_all_projects_ends_with_any_write(servers: tuple[Server, Server]) -> None:
    looking, writing = servers
    looking.look(whole=True)
    with writing.workspace.session() as session:
        append(session, "two", "note", {})
    looking.look(whole=True)
    assert looking.looks == 2


def test_a_row_edited_by_hand_ends_what_was_kept(servers: tuple[Server, Server]) -> None:
    looking, _ = servers
    looking.look()
    with sqlite3.connect(looking.workspace.path / "workspace.sqlite") as connection:
        connection.execute("UPDATE projects SET intent = 'another' WHERE name = 'one'")
    looking.look()
    assert looking.looks == 2


def test_the_owner_s_settings_end_what_was_kept(servers: tuple[Server, Server]) -> None:
    looking, _ = servers
    looking.look()
    settings = looking.workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("trials: 200", "trials: 100"))
    looking.look()
    assert looking.looks == 2


def test_a_session_that_has_written_always_looks(servers: tuple[Server, Server]) -> None:
    server, looks = servers[0], []
    server.look()
    with server.workspace.session() as session:
        append(session, "one", "note", {})
        for _ in range(2):
            server.workspace.kept.answer(session, "one", False, lambda: looks.append("looked"))
    assert looks == ["looked"] * 2


@pytest.mark.requirement("MCP-5", "MON-4")
def test_rows_are_read_once_until_any_server_writes(servers: tuple[Server, Server]) -> None:
    looking, writing = servers
    kept, read = looking.workspace.kept, iter(range(9))
    assert [kept.rows("what", lambda: next(read)) for _ in range(3)] == [0, 0, 0]
    assert kept.rows("other", lambda: next(read)) == 1
    with writing.workspace.session() as session:
        append(session, "two", "note", {})
    assert [kept.rows("what", lambda: next(read)), kept.rows("what", lambda: next(read))] == [2, 2]
    with looking.workspace.session() as session:
        append(session, "two", "note", {})
    assert kept.rows("what", lambda: next(read)) == 3, "what this server writes ends it too"


@pytest.mark.requirement("MCP-5")
def test_what_is_not_there_is_looked_for_again(servers: tuple[Server, Server]) -> None:
    kept, found = servers[0].workspace.kept, []

    def read() -> str:
        if not found:
            raise NotFoundError("not yet", remedy="Wait.")
        return found[0]

    with pytest.raises(NotFoundError):
        kept.rows("what", read)
    found.append("now")
    assert kept.rows("what", read) == "now"
