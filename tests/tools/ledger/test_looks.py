"""Whoever reads for an answer notes what lies outside of its project, so that the answer ends once that differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.tools.ledger import Look
from trainwright.tools.workspace.query_cache import Sources

pytestmark = pytest.mark.requirement("MCP-5", "GATE-3")


@pytest.mark.parametrize("change", ["another/new.png", "cats/new.png", "cats/one.png"])
def test_a_folder_of_data_counts_by_every_file_and_folder_in_it(tmp_path: Path, change: str) -> None:
    (tmp_path / "images" / "cats").mkdir(parents=True)
    (tmp_path / "images" / "cats" / "one.png").write_bytes(b"1")
    sources = Sources()
    Look(sources).digest(tmp_path / "images")
    assert sources.are_unchanged()
    changed = tmp_path / "images" / change
    changed.parent.mkdir(exist_ok=True)
    changed.write_bytes(b"another")
    assert not sources.are_unchanged()


def test_a_file_that_is_missing_counts_once_it_is_there(tmp_path: Path) -> None:
    sources = Sources()
    with pytest.raises(FileNotFoundError):
        Look(sources).digest(tmp_path / "model.py")
    (tmp_path / "model.py").touch()
    assert not sources.are_unchanged()
