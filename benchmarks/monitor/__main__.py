"""What the monitor costs at scale: a run of a million points, a thousand runs, a hundred writers, the page.

Prints a table and, as its last line, one JSON object. Goals: last values 5 ms, a diagnosis 100 ms, a curve of 2,000
points 100 ms, the page 1 s, `run_status` 5 ms at the median and 50 ms at the 99th percentile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "surface"))

from large import LONG, build
from million import figures_of_a_long_run
from page import page_seconds
from statuses import status_figures
from writers import writer_figures

FULL = {"count": 100, "runs": 1_000, "points": 3_000_000}
QUICK = {"count": 3, "runs": 60, "points": 90_000}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small workspace, ten writers, no browser")
    parser.add_argument("--workspace", type=Path, help="measure on this large workspace, made here before")
    asked = parser.parse_args()
    size = QUICK if asked.quick else FULL
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = asked.workspace or build(folder / "large", **size)
        runs = workspace / "projects" / LONG / "runs"
        run = next(path for path in sorted(runs.iterdir()) if "baseline" in path.name)
        figures: dict[str, float | int | str | None] = {**size}
        figures |= figures_of_a_long_run(run, folder / run.name)
        figures |= asyncio.run(status_figures(workspace, rounds=1 if asked.quick else 3))
        figures |= writer_figures(
            folder / "written", writers=10 if asked.quick else 100, seconds=3 if asked.quick else 20
        )
        figures |= {"page_seconds": None} if asked.quick else page_seconds(workspace, run.name)
    for what, value in figures.items():
        print(f"{what:32} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
