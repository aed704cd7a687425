"""What is recorded of a repository: the content of all code that is not committed, and nothing that git ignores."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.evidence import environment
from trainwright.trainer.evidence.environment import git_state

pytestmark = pytest.mark.requirement("REPRO-3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A code root within a repository, all of it committed."""
    root = tmp_path / "repository" / "code"
    root.mkdir(parents=True)
    (root / "model.py").write_text("WIDTH = 1\n")
    (root / "weights.bin").write_bytes(bytes(range(256)))
    (root / ".gitignore").write_text("*.csv\n")
    own = ["-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "-A"], [*own, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", "-C", str(root.parent), *arguments], check=True, stdin=subprocess.DEVNULL)
    return root


def state(root: Path) -> dict[str, Any]:
    found = git_state(root)
    assert found is not None
    return found


def test_a_folder_outside_any_repository_has_no_state(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None


def test_what_is_committed_or_ignored_leaves_the_repository_clean(root: Path) -> None:
    (root / "data.csv").write_text("1,2\n")
    found = state(root)
    assert len(found.commit) == 40
    assert (found.dirty, found.diff_digest, found.untracked) == (False, None, 0)


@pytest.mark.parametrize("name", ["model.py", "weights.bin", "new.py", "sub/näme with spaces\n.py"])
def test_the_content_of_every_uncommitted_file_counts(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"WIDTH = 2\n")
    first = state(root)
    path.write_bytes(b"WIDTH = 3\n")
    second = state(root)
    assert first.dirty
    assert second.dirty
    assert first.diff_digest != second.diff_digest
    assert first.untracked_by_name_only == 0
    path.write_bytes(b"WIDTH = 2\n")
    assert state(root) == first


def test_a_link_counts_by_where_it_leads(root: Path) -> None:
    (root / "linked.py").symlink_to("/nowhere")
    first = state(root)
    (root / "linked.py").unlink()
    (root / "linked.py").symlink_to("/elsewhere")
    assert state(root).diff_digest != first.diff_digest
    assert first.untracked_by_name_only == 0


@pytest.mark.parametrize(("bound", "value", "by_name"), [("MAX_UNTRACKED", 2, 1), ("MAX_UNTRACKED_BYTES", 10, 2)])
def test_what_is_beyond_the_bounds_counts_by_its_name_and_that_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, by_name: int
) -> None:
    for name, size in (("a.py", 4), ("b.py", 40), ("c.py", 7)):
        (root / name).write_bytes(b"#" * size)
    monkeypatch.setattr(environment, bound, value)
    found = state(root)
    assert (found.untracked, found.untracked_by_name_only) == (3, by_name)
    (root / "d.py").touch()
    assert state(root).diff_digest != found.diff_digest
