"""The plain copy beside a project: what either side lacks or tells otherwise is named, and a crash is made good."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.function_text import body_of

from trainwright.tools.ledger import append, copy_all_forward, cut_off, entries
from trainwright.tools.verification import VerificationReport, verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_bytes

PROJECT = "p"
Lines = list[bytes]


def append_entries() -> None:
    import sys
    from pathlib import Path

    from trainwright.tools.ledger import append
    from trainwright.tools.workspace import Workspace

    workspace = Workspace.open(Path(sys.argv[1]))
    for number in range(15):
        with workspace.session() as session:
            append(session, "p", "note", {"writer": sys.argv[2], "number": number})


def end_before_copying() -> None:
    import os
    import sys
    from pathlib import Path

    from trainwright.tools.ledger import append
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.workspace import AFTER_COMMIT

    with Workspace.open(Path(sys.argv[1])).session() as session:
        session.info[AFTER_COMMIT] = {"crash": lambda workspace: os._exit(9)}
        append(session, "p", "note", {"number": 7})
        append(session, "p", "note", {"number": 8})


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    write(opened, range(6))
    yield opened
    opened.close()


def write(workspace: Workspace, numbers: range) -> None:
    for number in numbers:
        with workspace.session() as session:
            append(session, "other" if number == 2 else PROJECT, "note", {"number": number, "text": "ä \u2028 \n"})


def copy_of(workspace: Workspace) -> Path:
    return workspace.project_folder(PROJECT) / "ledger.jsonl"


def copy_findings(report: VerificationReport) -> list[str]:
    return [finding.what for finding in report.findings if finding.where in {"JSONL", "ledger"}]


def in_database(workspace: Workspace, statement: str) -> None:
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.executescript("DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete;")
        connection.execute(statement)


@pytest.mark.requirement("GATE-3")
def test_every_entry_has_one_line_that_holds_the_bytes_that_were_hashed(workspace: Workspace) -> None:
    lines = copy_of(workspace).read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line)["entry"][0] for line in lines] == [1, 2, 4, 5, 6]
    for line in lines:
        hashed = line.partition(b'"entry":')[2].removesuffix(b"}")
        assert digest_bytes(hashed) == json.loads(line)["digest"]
    report = verify_workspace(workspace.path)
    assert report.findings == []
    assert report.checked["plain_copies"] == 6


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda lines: lines[:-1], "lacks ledger entry 6: it was removed"),
        (lambda lines: lines[:1] + lines[3:], "lacks ledger entry 2, 4: it was removed"),
        (lambda lines: [*lines[:2], lines[2].replace(b"number", b"nomber"), *lines[3:]], "line 3 (ledger entry 4) was"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "line 2 stands out of order"),
        (lambda lines: [*lines, lines[-1]], "line 6 stands out of order"),
        (lambda lines: [*lines[:2], b"# note\n", *lines[2:]], "line 3 is not a ledger entry"),
        (lambda lines: [line.replace(b"\n", b" \n") for line in lines], "line 1 tells ledger entry 1 otherwise"),
    ],
    ids=["cut", "removed", "edited", "swapped", "repeated", "inserted", "spaces"],
)
def test_an_edit_of_the_copy_is_named(workspace: Workspace, edit: Callable[[Lines], Lines], named: str) -> None:
    path = copy_of(workspace)
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))
    assert any(named in what for what in copy_findings(verify_workspace(workspace.path)))


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_removed_copy_is_named(workspace: Workspace) -> None:
    copy_of(workspace).unlink()
    assert copy_findings(verify_workspace(workspace.path)) == ["projects/p/ledger.jsonl was removed"]


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_ledger_whose_end_was_cut_off_is_named_through_the_copy(workspace: Workspace) -> None:
    in_database(workspace, "DELETE FROM ledger WHERE sequence >= 5")
    found = copy_findings(verify_workspace(workspace.path))
    removed = [what for what in found if "was removed from the database" in what]
    assert [what.split()[2] for what in removed] == ["5", "6"]
    with workspace.session() as session:
        assert cut_off(session, workspace, PROJECT) == [
            "project p: entry 6 of ledger.jsonl is not in the database's ledger"
        ]


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_what_is_written_after_a_cut_does_not_hide_it(workspace: Workspace) -> None:
    before = copy_of(workspace).read_bytes()
    in_database(workspace, "DELETE FROM ledger WHERE sequence >= 5")
    write(workspace, range(10, 14))
    after = copy_of(workspace).read_bytes()
    assert after.startswith(before)
    assert any(
        "line 4 tells ledger entry 5 otherwise" in what for what in copy_findings(verify_workspace(workspace.path))
    )


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("left", [0, 1, 70, -1])
def test_what_a_crash_left_out_is_added_and_no_byte_is_rewritten(workspace: Workspace, left: int) -> None:
    """The crash came between commit and copy (0 bytes of the last line written), or within the line."""
    path = copy_of(workspace)
    whole = path.read_bytes()
    begin = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    os.truncate(path, begin + left if left >= 0 else len(whole) + left)
    inode = path.stat().st_ino
    copy_all_forward(workspace)
    assert path.read_bytes() == whole
    assert path.stat().st_ino == inode
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.requirement("GATE-3")
def test_a_crash_between_commit_and_copy_is_told_from_a_cut_and_made_good(workspace: Workspace) -> None:
    assert (
        subprocess.run(
            [sys.executable, "-P", "-c", body_of(end_before_copying), str(workspace.path)], check=False
        ).returncode
        == 9
    )
    report = verify_workspace(workspace.path)
    assert report.problems == []
    assert [finding.what for finding in report.findings] == [
        "projects/p/ledger.jsonl lacks ledger entry 7, 8: a crash left it out, and a server that starts adds it"
    ]
    copy_all_forward(workspace)
    assert verify_workspace(workspace.path).findings == []
    path = copy_of(workspace)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert verify_workspace(workspace.path).problems == ["projects/p/ledger.jsonl lacks ledger entry 8: it was removed"]


@pytest.mark.requirement("GATE-3")
def test_a_server_that_writes_meanwhile_waits_for_no_verification_and_makes_no_difference(workspace: Workspace) -> None:
    with workspace.snapshot() as session:
        seen = entries(session, PROJECT)
        other = Workspace.open(workspace.path)
        write(other, range(7, 9))  # would wait half a minute for a lock, and fail
        other.close()
        assert entries(session, PROJECT) == seen
    writer = subprocess.Popen([sys.executable, "-P", "-c", body_of(append_entries), str(workspace.path), "c"])
    problems: list[str] = []
    while writer.poll() is None:
        problems += verify_workspace(workspace.path).problems
    assert writer.returncode == 0
    assert problems == []
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.requirement("GATE-3")
def test_a_transaction_that_is_rolled_back_leaves_no_line(workspace: Workspace) -> None:
    before = copy_of(workspace).read_bytes()
    with pytest.raises(ZeroDivisionError), workspace.session() as session:
        append(session, PROJECT, "note", {"number": 1 / len("x")})
        raise ZeroDivisionError
    assert copy_of(workspace).read_bytes() == before


@pytest.mark.requirement("GATE-3")
def test_a_copy_that_cannot_be_written_undoes_no_decision_and_is_continued_later(workspace: Workspace) -> None:
    path = copy_of(workspace)
    aside = path.rename(path.with_name("aside"))
    path.symlink_to(aside)  # a link is not followed
    before = aside.read_bytes()
    write(workspace, range(7, 8))
    assert aside.read_bytes() == before
    path.unlink()
    aside.rename(path)
    write(workspace, range(8, 9))
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.long
@pytest.mark.requirement("GATE-3")
def test_two_servers_append_to_one_chain_and_continue_one_copy_in_order(workspace: Workspace) -> None:
    command = [sys.executable, "-P", "-c", body_of(append_entries), str(workspace.path)]
    writers = [subprocess.Popen([*command, name]) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    report = verify_workspace(workspace.path)
    assert report.findings == []
    assert report.checked["plain_copies"] == 36
