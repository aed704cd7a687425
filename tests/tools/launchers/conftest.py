"""A launcher of a test's own, with warm processes that end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.launchers.warm_starts import launcher, until

from trainwright.tools.launchers.local import Local


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Local]:
    """A launcher of this test's own, none of whose processes stay."""
    made = launcher(tmp_path / "slots")
    yield made
    made.warm.close()
    until(lambda: not made.warm.processes(), "warm processes that were ended are still there")
