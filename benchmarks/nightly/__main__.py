"""`make nightly`: everything that CI leaves out, part by part, each with a limit and a log of its own.

A failing part never stops the next. Results are written as they come, into `tests/nightly.json` and `docs/nightly.md`;
an interrupted nightly leaves what it has, marked as unfinished. One JSON object is the last line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from parts import PARTS, Part
from playing import Outside, play
from record import Record


def main() -> int:
    """Play the parts; return the exit status: 1 where one did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of parts, separated by commas")
    parser.add_argument("--debian", action="store_true", help="install programs by apt-get, as root")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="the checkout")
    parser.add_argument("--parts", type=Path, help="a JSON file with other parts, in the place of the nightly's")
    asked = parser.parse_args()
    if asked.debian and os.geteuid():
        parser.error("DEBIAN=1 installs programs, which takes root")
    known = tuple(Part(**one) for one in json.loads(asked.parts.read_text())) if asked.parts else PARTS
    only = [name for name in asked.only.split(",") if name]
    if unknown := sorted(set(only) - {part.name for part in known}):
        parser.error(f"there is no part {', '.join(unknown)}; the parts are: {', '.join(part.name for part in known)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the part is ended, and written down
    record = Record(asked.root, known)
    chosen = [part for part in known if not only or part.name in only]
    states = {}
    for part in chosen:
        play(part, record, Outside(asked.root, installs=asked.debian))
        states[part.name] = record.parts[part.name]["state"]
        print(record.line(part.name), flush=True)
    print(json.dumps({**record.counts([part.name for part in chosen]), "parts": states}))
    return int(any(state != "passed" for state in states.values()))


if __name__ == "__main__":
    sys.exit(main())
