"""Projects in Python environments of their own, over a real server: from the smoke run to predict.py of the release.

`make environments` makes each environment (uv; torch is a download of gigabytes), trains a project in it, kills a run
and resumes it to the bit, takes it through all gates, and compares every file of the environment with what it was.
Prints a table, writes its lines into docs/environments.md too, and as its last line one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from pathlib import Path

from making import installed, make, prefix_of, state, touched
from playing import Played, play
from recording import HEAD, line, record
from rows import ROWS, Row


def main() -> int:
    """Play, print, and return the exit status: 0 when all are released, equal to the bit, and nothing was touched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of rows, separated by commas")
    parser.add_argument("--out", type=Path, help="folder for the environments; left out: a temporary one")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    asked = parser.parse_args()
    only = [name for name in asked.only.split(",") if name]
    if unknown := sorted(set(only) - {row.name for row in ROWS}):
        parser.error(f"there is no row {', '.join(unknown)}; the rows are: {', '.join(row.name for row in ROWS)}")
    print(HEAD)
    found = {}
    for row in (row for row in ROWS if not only or row.name in only):
        found[row.name] = _played(row, asked.out, keeps=asked.keep)
        print(line(row, found[row.name]), flush=True)
        record({row.name: found[row.name]})  # at once: an interrupted play has what it has
        for problem in found[row.name].problems:
            print(f"  {row.name}: {problem}", flush=True)
    counts = {
        "environments": len(found),
        "released": sum(one.is_released for one in found.values()),
        "bit_equal": sum(one.bit_equal for one in found.values()),
        "touched": sum(one.figures.get("touched", 0) for one in found.values()),
    }
    print(json.dumps(counts))
    return int(not counts["environments"] == counts["released"] == counts["bit_equal"] or counts["touched"] > 0)


def _played(row: Row, out: Path | None, *, keeps: bool) -> Played:
    """Make the environment, play in it, and remove it."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{row.name}-", dir=out)).resolve()
    try:
        began = time.monotonic()
        environment = make(row, folder)
        before, made = state(prefix_of(row, folder)), time.monotonic()
        played = asyncio.run(play(row, folder, environment))
        seconds = time.monotonic() - made
        changed = touched(before, state(prefix_of(row, folder)))
        played.problems += [f"touched: {path}" for path in changed[:10]]
        played.figures |= {"made": round(made - began), "seconds": round(seconds), "touched": len(changed)}
        played.figures["packages"] = installed(row, folder)
        return played
    except RuntimeError as error:
        return Played(problems=[f"not made: {error}"])
    finally:
        if not keeps:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
