"""The user's files that a file imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.trainer.base.imports import imported_files

pytestmark = pytest.mark.requirement("GATE-6")


def test_files_are_followed_by_name_by_dots_and_from_beside(tmp_path: Path) -> None:
    for name, text in {
        "pkg/__init__.py": "",
        "pkg/util.py": "from . import tables\n",
        "pkg/tables.py": "import json\n",
        "pkg/other.py": "",
        "pkg/sub/__init__.py": "",
        "pkg/sub/metric.py": "from ..util import mean\nfrom .beside import *\nimport far.away\n",
        "pkg/sub/beside.py": "",
        "far/away.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {path.relative_to(tmp_path).as_posix() for path in imported_files(tmp_path / "pkg/sub/metric.py", tmp_path)}
    assert found == {
        "pkg/__init__.py", "pkg/util.py", "pkg/tables.py", "pkg/sub/__init__.py", "pkg/sub/metric.py",
        "pkg/sub/beside.py", "far/away.py",
    }  # fmt: skip


def test_what_is_no_python_is_found_and_ends_there(tmp_path: Path) -> None:
    (tmp_path / "metric.py").write_text("try:\n    import legacy, umlaut\nexcept Exception:\n    legacy = None\n")
    (tmp_path / "legacy.py").write_text('print "x"\n')
    (tmp_path / "umlaut.py").write_bytes("name = 'ä'\n".encode("latin-1"))
    found = imported_files(tmp_path / "metric.py", tmp_path)
    assert [path.name for path in found] == ["metric.py", "legacy.py", "umlaut.py"]


def test_dots_do_not_lead_out_of_the_root_nor_past_the_first_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("x = 1\n")
    root = tmp_path / "project"
    root.mkdir()
    (root / "deep.py").write_text(f"x = {'-' * 200_000}1\n")
    named = f"import deep\nfrom ..outside import x\nfrom .. import outside\nfrom {'.' * 40} import y\n"
    (root / "metric.py").write_text(named)
    assert [path.name for path in imported_files(root / "metric.py", root)] == ["metric.py", "deep.py"]
