"""Runs and studies start warm, except where the start is what is tested (training_orchestrator); a private world."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.worlds.flowers import World
from tests.worlds.warm import warm

from trainwright.tools.workspace import Workspace


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> Iterator[None]:
    """What these tests show does not depend on how the interpreter of a run is started."""
    with warm():
        yield


@pytest.fixture
def at(flowers: World) -> Iterator[Callable[[str], Workspace]]:
    """Return a function that sets the usual world back to a stage and opens its workspace."""
    opened: list[Workspace] = []

    def open_stage(stage: str) -> Workspace:
        for workspace in opened:
            workspace.close()
        flowers.set_back(stage)
        opened.append(Workspace.open(flowers.workspace))
        return opened[-1]

    yield open_stage
    for workspace in opened:
        workspace.close()
