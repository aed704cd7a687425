"""What a wall refused: a run is worth another try once its name has been made, or the owner has opened the wall."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.gates.call_history import _is_let_through
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.run.status import Failure

pytestmark = pytest.mark.requirement("PHASE-10", "GATE-5")


def is_let_through(folder: Path, details: dict[str, Any], now: dict[str, Any]) -> bool:
    failure = Failure(category="user_code", message="refused", remedy="make it", details=details)
    specification = SimpleNamespace(wall=Settings().wall(folder))
    run: Any = SimpleNamespace(
        status=SimpleNamespace(failure=failure), directory=SimpleNamespace(specification=lambda: specification)
    )
    workspace = SimpleNamespace(settings=Settings.model_validate(now), path=folder)
    evidence: Any = SimpleNamespace(workspace=workspace)
    return _is_let_through(evidence, run)


def test_a_run_is_tried_again_once_what_the_wall_refused_has_been_made_or_opened(tmp_path: Path) -> None:
    refused = {"path": str(tmp_path / "outputs"), "to_be_made": True}
    assert not is_let_through(tmp_path, refused, {})
    assert is_let_through(tmp_path, refused, {"walls": {"writes": [str(tmp_path)]}})
    (tmp_path / "outputs").mkdir()
    assert is_let_through(tmp_path, refused, {})
    assert not is_let_through(tmp_path, {"path": refused["path"]}, {}), "it was there before"
    assert not is_let_through(tmp_path, {}, {"walls": {"writes": [str(tmp_path)]}}), "no wall refused it"
