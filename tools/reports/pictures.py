"""Pictures of a final model's validation rows, as plot_metrics draws them: what it confuses, and how sure it may be.

Pictures that show rows themselves go only where the owner lets rows go (`deployment.share_rows`).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trainwright.tools.figures.kinds import Kind
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run import RunDirectory

FOLDER = "pictures"
OF_ROWS: tuple[Kind, ...] = ("worst_samples", "forecasts")
DRAWN: dict[Kind, str] = {
    "calibration": "Predictions beside what was true: how often a probability is right, how far off a number is",
    "confusion": "Classes as they are and as predicted",
    "worst_samples": "The rows with the largest losses",
    "forecasts": "Forecasts beside what came: windows spread over the time, the best, the median and the worst",
}


class Picture(NamedTuple):
    """A picture in the model's folder."""

    path: str
    """Below it."""
    about: str


def draw_pictures(run: RunDirectory, name: str, folder: Path, *, shares_rows: bool) -> list[Picture]:
    """Draw what the run recorded of its validation rows; what it did not is left out.

    Args:
        name: of the run, in titles.

    Raises:
        IntegrityError: the recorded predictions are not as the worker wrote them.
        OSError: the folder cannot be written.
    """
    from trainwright.tools.figures.drawing import draw

    found = []
    for kind, about in DRAWN.items():
        if kind in OF_ROWS and not shares_rows:
            continue
        try:
            path = draw(kind, [run], folder / FOLDER / f"{kind}.png", names={run.run_id: name})
        except NotFoundError:
            continue
        found.append(Picture(path.relative_to(folder).as_posix(), about))
    return found
