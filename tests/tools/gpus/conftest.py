"""A workspace whose owner lists GPUs, as on a machine whose driver tells none; workers train on the CPU there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import make_project

from trainwright.tools.workspace import Workspace

__all__ = ["make_project"]
from collections.abc import Callable, Iterator
from pathlib import Path

GIB = 1024**3


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    yield opened
    opened.close()


@pytest.fixture
def owner_lists(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write the owner's list: `owner_lists(a="A100", b="A100")`, GPUs of 80 GiB by id."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = workspace.path / "settings.yaml"
    before = path.read_text()

    def write(**names: Any) -> None:
        lines = [f"- {{id: GPU-{id_}, name: {name}, memory_bytes: {80 * GIB}}}" for id_, name in names.items()]
        path.write_text("\n".join([before + "gpus:", *lines, ""]))
        workspace.refreshed()

    return write
