"""Tables in files, which a run validates before it trains: sound, with wrong labels, or with a leak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def write_rows(folder: Path, seed: int, *, noise: float = 0.0, leak: bool = False, count: int = 600) -> Path:
    """Write rows.csv: eight measurements and a class; return the folder.

    Args:
        folder: to write into; made if it is not there.
        seed: of the drawn rows.
        noise: share of the rows whose class is drawn.
        leak: one more column was measured after the outcome.
        count: of rows.
    """
    drawn = np.random.default_rng(seed)
    centres = 2.0 * np.random.default_rng(5).normal(size=(3, 8))
    classes = drawn.integers(0, 3, count)
    x = centres[classes] + 1.5 * drawn.normal(size=(count, 8))
    classes = np.where(drawn.random(count) < noise, drawn.integers(0, 3, count), classes)
    frame = pd.DataFrame({f"x{place}": x[:, place].round(4) for place in range(8)})
    if leak:
        frame["closed_after_days"] = (10 * classes + drawn.normal(size=count)).round(4)
    folder.mkdir(parents=True, exist_ok=True)
    frame.assign(y=[f"class {one}" for one in classes]).to_csv(folder / "rows.csv", index=False)
    return folder
