"""Opening workspaces: new, old, damaged, shared and unwritable ones."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.function_text import body_of

from trainwright.tools.launchers.worker_wall import told
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.schema_version import SCHEMA
from trainwright.tools.workspace.settings import Settings
from trainwright.tools.workspace.tables import Project
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, StorageError
from trainwright.trainer.run.specification import Wall

pytestmark = pytest.mark.slow


@pytest.mark.requirement("PHASE-1")
@pytest.mark.parametrize(
    "folder",
    ["w", "my%20project", "50%", "what?", "a?b=c&d#e", " two  blanks ", "it's \"so\";", "{run}[0]", "back\\slash",
     "日本 ñ", "e\u0301", "long" * 50, "new\nline", ":memory:", "file:x?mode=memory"],
)  # fmt: skip
def test_what_one_server_commits_the_next_one_reads_whatever_the_folder_is_called(tmp_path: Path, folder: str) -> None:
    first = Workspace.open(tmp_path / folder)
    with first.session() as session:
        session.add(Project(name="p", goal={}, limits={}, code_root="/"))
    second = Workspace.open(tmp_path / folder)
    with second.session() as session, second.snapshot() as watched:
        assert session.get(Project, "p") is not None
        assert watched.get(Project, "p") is not None
    first.close()
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == [folder]
    assert (tmp_path / folder / "workspace.sqlite").is_file()


def schema_of(folder: Path) -> dict[str, str]:
    """Return what made each table, index and trigger of a workspace's database, by its name."""
    with closing(sqlite3.connect(folder / "workspace.sqlite")) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in sorted(found)}


def change(folder: Path, script: str) -> None:
    """Change a workspace's database by SQL."""
    with closing(sqlite3.connect(folder / "workspace.sqlite")) as connection:
        connection.executescript(script)


@pytest.mark.parametrize(
    ("made", "match"),
    [
        ("CREATE TABLE projects (a); CREATE TABLE b (c)", "the tables b, projects, and no ledger"),
        ("CREATE TABLE ledger (account, amount)", r"has schema 0; this Trainwright reads schema \d"),
        ("CREATE TABLE other (a); PRAGMA user_version = 3", "another program made it"),
    ],
)
def test_a_database_of_another_program_is_refused_and_not_written(tmp_path: Path, made: str, match: str) -> None:
    change(tmp_path, made)
    before = schema_of(tmp_path)
    with pytest.raises(IntegrityError, match=match) as refused:
        Workspace.open(tmp_path)
    assert "--workspace DIR" in refused.value.remedy
    assert schema_of(tmp_path) == before


@pytest.mark.parametrize(
    ("number", "remedy"), [(4, "Move it away: "), (9999, "Upgrade Trainwright. Or move it away: ")]
)
def test_a_database_of_another_schema_is_refused_untouched_with_the_call_that_makes_it_again(
    tmp_path: Path, number: int, remedy: str
) -> None:
    Workspace.open(tmp_path).close()
    change(tmp_path, f"DROP TABLE alerts; PRAGMA user_version = {number}")
    before = schema_of(tmp_path)
    with pytest.raises(IntegrityError, match=f"has schema {number}; this Trainwright reads schema") as refused:
        Workspace.open(tmp_path)
    assert refused.value.remedy.startswith(f"{remedy}`trainwright rebuild {tmp_path}` makes it again")
    assert schema_of(tmp_path) == before


SCHEMAS = {5: "blake3:9c11a2e00cd6540fbf3a3f10d6f3b09464349e7a5fcb67cf4e71a41a11bfdc4a"}
"""Each number of a schema that was given out, with the digest of all CREATE statements that it stands for."""


def test_tables_do_not_change_without_another_number_of_their_schema(tmp_path: Path) -> None:
    Workspace.open(tmp_path).close()
    digest = digest_json(schema_of(tmp_path))
    assert SCHEMAS.get(SCHEMA) == digest, (
        f"The tables are not those of schema {SCHEMA}. Raise SCHEMA in schema_version.py, or databases "
        f"that are there are read as if they had them, and add its digest to SCHEMAS: {digest!r}."
    )
    assert max(SCHEMAS) == SCHEMA


def test_a_failed_session_leaves_nothing(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path)
    with pytest.raises(RuntimeError), workspace.session() as session:
        session.add(Project(name="p", goal={}, limits={}, code_root="/"))
        session.flush()
        raise RuntimeError
    with workspace.session() as session:
        assert session.get(Project, "p") is None
    workspace.close()


@pytest.mark.requirement("PHASE-1")
def test_a_session_holds_the_workspace_before_its_first_query(tmp_path: Path) -> None:
    """Drafts are moved, and launches read, at the beginning of a session: nobody else may be at it meanwhile."""
    workspace = Workspace.open(tmp_path)
    other = sqlite3.connect(tmp_path / "workspace.sqlite", timeout=0, isolation_level=None)
    with workspace.session(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.execute("BEGIN IMMEDIATE")
    other.close()
    workspace.close()


def open_workspace() -> None:
    import sys
    from pathlib import Path

    from trainwright.tools.workspace import Workspace

    Workspace.open(Path(sys.argv[1]))


@pytest.mark.long
def test_several_processes_may_make_one_workspace_at_the_same_time(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", body_of(open_workspace), str(tmp_path / "w")]
    makers = [subprocess.Popen(command) for _ in range(3)]
    assert [maker.wait(60) for maker in makers] == [0, 0, 0]


def test_the_owners_settings_are_never_seen_half_written(tmp_path: Path) -> None:
    for number in range(50):
        folder = tmp_path / str(number)
        folder.mkdir()
        with ThreadPoolExecutor(8) as openers:
            seen = set(openers.map(lambda _, folder=folder: Settings.load(folder).digest, range(8)))
        assert seen == {Settings().digest}


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be looked at" * 20])
def test_a_file_that_is_no_database_is_told_or_made_new(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "workspace.sqlite").write_bytes(content)
    if not content:  # SQLite itself reads an empty file as a new database
        Workspace.open(tmp_path).close()
        return
    with pytest.raises(IntegrityError, match="not a workspace database"):
        Workspace.open(tmp_path)
    assert (tmp_path / "workspace.sqlite").read_bytes() == content


@pytest.mark.parametrize("text", ["code_roots: 3", "limit: {}", "- a", "limits: {trials: 0}", "a: &b [*b]", "\tx: 1"])
def test_settings_that_are_not_valid_are_told_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.yaml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Workspace.open(tmp_path)
    assert caught.value.remedy


def test_a_folder_that_cannot_be_made_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be made") as caught:
        Workspace.open(tmp_path / "file" / "workspace")
    assert "--workspace" in caught.value.remedy


@pytest.mark.parametrize("name", ["..", "a/b", "/etc", ".hidden", "a" * 64, "a\n", "ａ", "con tab", os.curdir])
def test_names_that_are_no_plain_words_never_become_paths(tmp_path: Path, name: str) -> None:
    workspace = Workspace.open(tmp_path)
    with pytest.raises(ConfigurationError, match="not a valid name"):
        workspace.project_folder(name)
    with pytest.raises(ConfigurationError, match="not a valid name"):
        workspace.run_directory("p", name)
    workspace.close()


def test_threads_of_one_process_take_turns_and_none_gives_up(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace", patience_seconds=0.3)
    begin = threading.Barrier(12)

    def write(_: int) -> None:
        begin.wait()
        with workspace.session():
            time.sleep(0.1)  # all of them together take four times the patience

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(write, range(12)))
    workspace.close()


@pytest.mark.requirement("GATE-5")
def test_the_owner_says_what_a_wall_round_a_worker_lets_through(tmp_path: Path) -> None:
    def wall(text: str) -> Any:
        path = tmp_path / "settings.yaml"
        path.write_text(text)
        os.utime(path, ns=(0, len(text)))  # read anew, though written within a tick of the clock
        return Settings.load(tmp_path).wall(tmp_path)

    outside = str(tmp_path.parent.resolve() / "out")
    assert wall("walls: {writes: [../out], network: [443]}") == Wall(writes=[outside], ports=[443])
    assert wall("walls: {network: false}") == Wall(ports=[])
    assert wall("require_git: true") == Wall()
    assert wall("walls: off") is wall("walls: 'off'") is None
    with pytest.raises(ConfigurationError, match=r"walls\.network"):
        wall("walls: {network: sometimes}")


def test_a_wall_is_told_in_one_line() -> None:
    held = {"landlock": 7, "reads": [], "writes": ["/out"], "ports": [443], "not_covered": ["signals"]}
    assert told(held) == "Landlock 7, TCP to 443; writes /out; not covered: signals"
    assert told(held | {"ports": None, "writes": [], "not_covered": []}) == "Landlock 7, network open"
    assert told({"none": "the owner's settings.yaml switches walls off"}).startswith("no wall: the owner's settings")
    assert told({}) == "no wall: the ledger does not say"
