"""Small inputs after public reports, played through planning: `make inputs` (ONLY=names, PROCESSES=2, OUT=file).

Each has its right understanding written down beforehand: what the target is, kinds of columns, rows and their values;
or that it is to be refused, and in which words. The last line is one JSON object. `wrong`: taken with another
meaning. `unclear`: refused without the words of its cause.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from running import Found, cases, play_some
from verdicts import RIGHT, UNCLEAR, VERDICTS, WRONG

MAX_UNCLEAR = 0.02
CHUNKS = 4
"""Each process plays so many parts of the list: a server more for each."""


def main() -> int:
    """Play, print, and return the exit status: 0 when nothing is wrong and hardly anything unclear."""
    asked = _arguments()
    names = [
        case.name for case in cases() if not asked.only or any(part in case.name for part in asked.only.split(","))
    ]
    if asked.keep:
        Path(asked.keep).mkdir(parents=True, exist_ok=True)
    parts = [part for place in range(asked.processes * CHUNKS) if (part := names[place :: asked.processes * CHUNKS])]
    found: list[Found] = []
    with ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn")) as pool:
        for job in as_completed([pool.submit(play_some, part, asked.keep) for part in parts]):
            found += job.result()
            print(f"{len(found)} of {len(names)}", flush=True)
    for name, source, what, why, seconds in sorted(found, key=lambda one: (VERDICTS.index(one[2]), one[0])):
        if what != RIGHT or asked.verbose:
            print(f"{what:17}{name} ({source}), {seconds:.1f} s" + (f"\n    {why}" if why else ""))
    counts = {what: sum(one[2] == what for one in found) for what in VERDICTS}
    print(json.dumps({"inputs": len(found), **counts}))
    return int(bool(counts[WRONG]) or counts[UNCLEAR] > MAX_UNCLEAR * len(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="name those that are right as well")
    parser.add_argument("--keep", default="", help="a folder for the answers to each")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
