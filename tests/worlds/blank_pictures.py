"""Pictures without content: laying out and drawing the two of a diagnosis takes a second, and tests make hundreds.

Files, names and digests are as they would be; what a picture shows is tested in tests/tools/figures and beside studies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def blank_pictures() -> Iterator[None]:
    """Let this process save each figure as a picture of one pixel."""
    from matplotlib.figure import Figure
    from PIL import Image

    def save(figure: Any, path: Any, **_: Any) -> None:
        Image.new("RGB", (1, 1)).save(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save)
        yield
