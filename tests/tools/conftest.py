"""Runs and studies of these tests start warm, except where the start is what is tested (training_orchestrator)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.worlds.warm import warm

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> Iterator[None]:
    """What these tests show does not depend on how the interpreter of a run is started."""
    with warm():
        yield
