"""`make bench-walls`: milliseconds that the wall adds to a command's start, and what it costs while one runs.

Starts with and without the wall alternate, so that both meet the same machine. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

WORK = """
import os, sys, time
began = time.perf_counter()
if sys.argv[1] == "compute":
    sum(number * number for number in range(4_000_000))
else:  # 4,000 files opened
    for _ in range(20):
        for name in range(200):
            os.close(os.open(sys.argv[2], os.O_RDONLY))
print(time.perf_counter() - began)
"""
"""Measures itself: the start is measured beside it."""


def started(command: list[str], folder: Path) -> tuple[float, str]:
    """Return the seconds that a command took, and what it said."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=21)
    repetitions = parser.parse_args().repetitions
    wall = [str(Path(sys.executable).parent / "trainwright"), "enclose", "--quiet", "--"]
    imports = "import time; began = time.perf_counter(); import sqlalchemy, typer; print(time.perf_counter() - began)"
    ways = {
        "start": ["/bin/true"],
        "compute": [sys.executable, "-I", "-S", "-c", WORK, "compute"],
        "files": [sys.executable, "-I", "-S", "-c", WORK, "files", json.__file__],
        "imports": [sys.executable, "-P", "-c", imports],
    }
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        for way, command in ways.items():
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(repetitions):
                for walled in (False, True):
                    took, said = started([*wall, *command] if walled else command, Path(name))
                    seconds[walled].append(float(said) if said else took)
            bare, inside = median(seconds[False]), median(seconds[True])
            figures[f"{way}_bare_ms"], figures[f"{way}_walled_ms"] = round(bare * 1e3, 1), round(inside * 1e3, 1)
            least = [round(min(seconds[walled]) * 1e3, 1) for walled in (False, True)]
            figures[f"{way}_least_bare_ms"], figures[f"{way}_least_walled_ms"] = least
            shown = [f"{bare * 1e3:.1f} ms (least {least[0]})", f"{inside * 1e3:.1f} ms (least {least[1]})"]
            print(f"{way:8} bare {shown[0]:28} walled {shown[1]}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
