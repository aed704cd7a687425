"""Programs that tests run in environments of their own: `make companions` installs them, `make test` does not."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / ".venv" / "companions"
DVC, KFP, MOTO = (FOLDER / name / "bin" / program for name, program in (
    ("dvc", "dvc"), ("kfp", "python"), ("moto", "moto_server"),
))  # fmt: skip


def skip_without_companions(item: pytest.Item) -> None:
    """Skip a test marked `companions("dvc")` where one of the programs is not installed, with what installs it."""
    named = [name for mark in item.iter_markers("companions") for name in mark.args]
    if absent := " and ".join(name for name in named if not (FOLDER / name / "bin").is_dir()):
        item.add_marker(pytest.mark.skip(reason=f"{absent} not in .venv/companions: make companions"))
