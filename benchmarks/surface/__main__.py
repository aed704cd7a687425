"""What the server costs an agent: on a small workspace, and on a large one that is made here.

Prints a table and, as its last line, one JSON object. Calls are measured through a real client over stdio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

from calls import measure
from large import POINTS, PROJECTS, RUNS, build
from looks import commands, looks


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--projects", type=int, default=PROJECTS)
    parser.add_argument("--runs", type=int, default=RUNS, help="of all projects together")
    parser.add_argument("--points", type=int, default=POINTS, help="of one run")
    parser.add_argument("--workspace", type=Path, help="measure on this large workspace, made here before")
    asked = parser.parse_args()
    figures = asyncio.run(measure(asked.repetitions))
    with tempfile.TemporaryDirectory() as name:
        size = {"count": asked.projects, "runs": asked.runs, "points": asked.points}
        large = asked.workspace or build(Path(name), **size)
        figures |= {"projects": asked.projects, "runs": asked.runs, "points": asked.points}
        figures |= asyncio.run(looks(large, asked.repetitions)) | commands(large)
    for what, value in figures.items():
        print(f"{what:32} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
