"""Recorded series of a run as CSV: key, step, mean, lowest, highest.

curves.py RUN_ID train/loss validation/loss --workspace .trainwright --points 500
curves.py RUN_ID --keys
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from trainwright.tools.dashboard import curves, run_page
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_named
from trainwright.trainer.base.errors import TrainwrightError


def main(arguments: list[str]) -> int:
    """Write the series to standard output. Returns the exit status: 1 where there is no such run or workspace."""
    options = _options(arguments)
    if not (options.workspace / "workspace.sqlite").is_file():
        sys.stderr.write(f"There is no workspace at {options.workspace}.\n")
        return 1
    workspace = Workspace.open(options.workspace)
    try:
        with workspace.snapshot() as session:
            run = run_named(session, options.run)
        if options.keys:
            sys.stdout.write("\n".join(run_page(workspace, run).keys) + "\n")
            return 0
        found = curves(workspace, run, options.series, options.points).curves
    except TrainwrightError as error:
        sys.stderr.write(f"{error.message} {error.remedy}\n")
        return 1
    finally:
        workspace.close()
    table = csv.writer(sys.stdout)
    table.writerow(["key", "step", "mean", "lowest", "highest"])
    for key, curve in found.items():
        columns = (curve.steps, curve.means, curve.lows, curve.highs)
        table.writerows([key, *row] for row in zip(*columns, strict=True))
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="id or handle of a run: digits/baseline-2")
    parser.add_argument("series", nargs="*", default=["train/loss", "validation/loss"])
    parser.add_argument("--workspace", type=Path, default=Path(".trainwright"))
    parser.add_argument("--points", type=int, default=2000, help="most rows of one series")
    parser.add_argument("--keys", action="store_true", help="list the recorded series instead")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
