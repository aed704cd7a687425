"""Worst validation rows of a segmentation: each picture above its true mask and the predicted one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from trainwright.tools.figures.style import COLOURS, GREY, SMALL, new_figure, plain, save

if TYPE_CHECKING:
    from trainwright.tools.figures.recorded import Predicted

MOST = 8
UNCOUNTED = 255
"""Class of a pixel that counts nowhere."""
BACKGROUND, NONE = "#1a1a1a", "#d9d9d9"
"""Of class 0, and of pixels without a class."""
MAX_NAMED = 10


def draw_masks(found: Predicted, path: Path) -> Path:
    """Draw pictures, true masks and predicted masks in three rows, and how much of each mask is right."""
    images, targets, predictions = (found.arrays[f"worst_{name}"] for name in ("images", "targets", "predictions"))
    count = min(len(images), MOST)
    figure, axes = new_figure(3, count, 5.4)
    for place in range(count):
        image, row = images[place], found.evaluation.worst[place]
        counted = targets[place] != UNCOUNTED
        right = (targets[place] == predictions[place])[counted].mean() if counted.any() else 0.0
        axes[0][place].imshow(image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray")
        axes[1][place].imshow(_coloured(targets[place]), interpolation="nearest")
        axes[2][place].imshow(_coloured(predictions[place]), interpolation="nearest")
        where = f"row {row.row}" if row.source_row is None else f"source row {row.source_row}"
        axes[0][place].set_title(f"{where}\nloss {row.loss:.3g}", fontsize=SMALL)
        axes[2][place].set_xlabel(f"{right:.0%} right", fontsize=SMALL)
    for line, name in zip(axes, ("input", "true", "predicted"), strict=True):
        line[0].set_ylabel(name, fontsize=SMALL)
        for panel in line:
            panel.set_xticks([])
            panel.set_yticks([])
            panel.grid(visible=False)
    held = sorted({*targets[:count].flat, *predictions[:count].flat})
    names = [(found.class_name(int(one)), _colour(int(one))) for one in held if one != UNCOUNTED][:MAX_NAMED]
    names += [("counts nowhere", NONE)] * (UNCOUNTED in held)
    patches = [Patch(facecolor=colour, edgecolor=GREY, label=plain(name)) for name, colour in names]
    figure.legend(handles=patches, loc="outside lower center", ncols=min(len(patches), 6), fontsize=SMALL)
    return save(figure, f"Worst of {found.title}", path)


def _colour(number: int) -> str:
    return NONE if number == UNCOUNTED else BACKGROUND if number == 0 else COLOURS[(number - 1) % len(COLOURS)]


def _coloured(mask: Any) -> Any:
    """Return the colours of a mask's classes, (height, width, 3)."""
    table = np.array([to_rgb(_colour(number)) for number in range(UNCOUNTED + 1)])
    return table[mask]
