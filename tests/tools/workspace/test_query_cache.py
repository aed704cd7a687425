"""What looks came to is kept by each server, and never outlives what it follows from."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.ledger import append
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.trainer.base import file_stamps
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.base.file_stamps import stamps_below

pytestmark = pytest.mark.requirement("MCP-5", "GATE-3")
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "metrics": ["accuracy"]}


class Server:
    """One server's looks, counted."""

    def __init__(self, path: Path) -> None:
        self.workspace = Workspace.open(path)
        self.looks = 0

    def look(self, project: str = "one", note: Callable[[Sources], object] = lambda _: None) -> None:
        def make(sources: Sources) -> None:
            self.looks += 1
            note(sources)

        folder = self.workspace.project_folder(project)
        with self.workspace.refreshed().session() as session:
            self.workspace.kept.answer(session, project, note, make, files=partial(stamps_below, folder))


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Server]]:
    monkeypatch.setattr(file_stamps, "SETTLED_NS", -(10**10))  # every file counts as one that was written long ago
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

    def note(sources: Sources) -> None:
        sources.are_all_projects = True

    looking.look(note=note)
    with writing.workspace.session() as session:
        append(session, "two", "note", {})
    looking.look(note=note)
    assert looking.looks == 2


def test_a_file_in_the_project_s_folder_ends_what_was_kept_once_it_differs(servers: tuple[Server, Server]) -> None:
    looking, _ = servers
    looking.look()
    (looking.workspace.project_folder("one") / "runs" / "one-1").mkdir(parents=True)
    looking.look()
    assert looking.looks == 1
    (looking.workspace.project_folder("one") / "runs" / "one-1" / "status.json").write_text("{}")
    looking.look()
    assert looking.looks == 2


def test_a_file_elsewhere_counts_where_it_was_noted(servers: tuple[Server, Server], tmp_path: Path) -> None:
    looking, _ = servers
    file = tmp_path / "model.py"

    def note(sources: Sources) -> None:
        sources.note(file)

    for looks, content in enumerate(("one", "two"), start=2):
        looking.look(note=note)
        looking.look(note=note)
        file.write_text(content)
        looking.look(note=note)
        assert looking.looks == looks


def test_what_leaves_no_stamp_is_never_kept(servers: tuple[Server, Server]) -> None:
    looking, _ = servers

    def note(sources: Sources) -> None:
        sources.are_fleeting = True

    looking.look(note=note)
    looking.look(note=note)
    assert looking.looks == 2


def test_what_was_written_a_moment_ago_is_looked_at_again(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, _ = servers
    monkeypatch.setattr(file_stamps, "SETTLED_NS", 10**10)
    looking.look()
    looking.look()
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
            server.workspace.kept.answer(session, "one", "what", lambda _: looks.append("looked"))
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
