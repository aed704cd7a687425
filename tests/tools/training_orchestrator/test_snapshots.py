"""Snapshots of a user's code: kept once by content, data linked, and nothing of the server's in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.tools.training_orchestrator import snapshots
from trainwright.tools.training_orchestrator.snapshots import code_of, snapshot_folder, take_snapshot
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, NotFoundError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    code = tmp_path / "code"
    for name, text in {
        "net.py": "A = 1\n", "parts/block.py": "B = 2\n", "data/rows.csv": "1,2\n", "parts/notes.txt": "n\n",
        ".git/config.py": "secret\n", ".env": "KEY=1\n", "venv/lib.py": "library\n",
    }.items():  # fmt: skip
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text)
    return code


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace.open(root / "work")


@pytest.mark.requirement("PHASE-8")
def test_code_is_copied_data_are_linked_and_the_same_code_is_kept_once(root: Path, workspace: Workspace) -> None:
    digest = take_snapshot(workspace, "p", root)
    folder = snapshot_folder(workspace, "p", digest)
    assert code_of(folder) == {"net.py": "A = 1\n", "parts/block.py": "B = 2\n"}
    assert (folder / "data").readlink() == root / "data"
    assert (folder / "parts" / "notes.txt").readlink() == root / "parts" / "notes.txt"
    assert sorted(path.name for path in folder.iterdir()) == [".snapshot.json", "data", "net.py", "parts"]
    assert take_snapshot(workspace, "p", root) == digest
    (root / "net.py").write_text("A = 3\n")
    assert code_of(folder)["net.py"] == "A = 1\n", "edited meanwhile"
    other = take_snapshot(workspace, "p", root)
    assert other != digest
    (root / "net.py").write_text("A = 1\n")
    assert take_snapshot(workspace, "p", root) == digest
    assert len(list(folder.parent.iterdir())) == 2, "no draft is left"


@pytest.mark.requirement("PHASE-8")
def test_the_same_code_finds_data_that_came_later_or_have_moved_and_linked_code_stays_inside(
    root: Path, workspace: Workspace
) -> None:
    (root / "alias.py").symlink_to(root / "parts" / "block.py")
    digest = take_snapshot(workspace, "p", root)
    folder = snapshot_folder(workspace, "p", digest)
    assert not (folder / "alias.py").is_symlink(), "it is code, and copied"
    (root / "later.csv").write_text("3,4\n")
    assert take_snapshot(workspace, "p", root) == digest
    assert (folder / "later.csv").read_text() == "3,4\n"
    (root / "parts" / "other.py").write_text("B = 2\n")
    (root / "alias.py").unlink()
    (root / "alias.py").symlink_to(root / "net.py")
    assert take_snapshot(workspace, "p", root) != digest, "it leads elsewhere"
    (root / "alias.py").unlink()
    (root / "alias.py").symlink_to(Path("parts") / "block.py")
    (root / "parts" / "other.py").unlink()
    moved = root.rename(root.with_name("moved"))
    again = Workspace.open(moved / "work")
    assert take_snapshot(again, "p", moved) == digest
    assert (snapshot_folder(again, "p", digest) / "data" / "rows.csv").read_text() == "1,2\n"


@pytest.mark.requirement("GATE-5")
def test_a_snapshot_that_was_edited_is_run_by_nobody(root: Path, workspace: Workspace) -> None:
    folder = snapshot_folder(workspace, "p", digest := take_snapshot(workspace, "p", root))
    (folder / "net.py").write_text("A = 0\n")
    with pytest.raises(IntegrityError, match=r"was edited \(net\.py\)"):
        snapshot_folder(workspace, "p", digest)


@pytest.mark.requirement("PHASE-8")
def test_too_much_code_and_a_snapshot_that_is_gone_are_named(
    root: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError, match="is gone"):
        snapshot_folder(workspace, "p", "blake3:" + "0" * 64)
    monkeypatch.setattr(snapshots, "MAX_ENTRIES", 3)
    with pytest.raises(ConfigurationError, match="3 names to look through"):
        take_snapshot(workspace, "p", root)
