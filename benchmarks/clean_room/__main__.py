"""Honest projects evaluated apart: whether the clean room's numbers are those of training, and what that costs.

`make clean-room` takes each project through its phases by what the server's answers name, and compares every figure
of every run that a clean process evaluated with the training process's own. A project agrees when all of them do,
the goal's among them, within the tolerance that the gates use; one that is not evaluated says why. The seconds
added are those of fixing rows, exporting programs for the evaluation, and the evaluation, as a share of the project's
whole time.

Prints a table and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "walks"))  # a process of the pool gets the path with it

from honest import honest
from judged import Found, play


def main() -> int:
    """Play, print, and return the exit status: 0 when no honest project's numbers differ."""
    asked = _arguments()
    chosen = [walk.name for walk in honest() if not asked.only or walk.name in asked.only.split(",")]
    chosen = chosen[:: 4 if asked.quick else 1]
    found: list[Found] = []
    with ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn")) as pool:
        for job in as_completed([pool.submit(play, name) for name in chosen]):
            found.append(job.result())
            print(found[-1].line, flush=True)
    seconds, added = sum(one.seconds for one in found), sum(one.added for one in found)
    figures = {
        "projects": len(found),
        "agreed": sum(one.agrees for one in found),
        "not_judged": sum(not one.agrees and not one.differences for one in found),
        "seconds_added_percent": round(100 * added / seconds, 2) if seconds else 0.0,
        "differed": sorted(one.name for one in found if one.differences),
        "not_released": sorted(one.name for one in found if one.end != "finished"),
    }
    print(json.dumps(figures))
    return 0 if found and not figures["differed"] and not figures["not_released"] else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--quick", action="store_true", help="every fourth project")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
