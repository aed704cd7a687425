"""The pictures of README, drawn anew: `make pictures`. Plays the demonstration for its transcript, unless one is there.

demo.txt  what `trainwright demo` printed, whole (--play plays it again: about four minutes)
gates.svg, session.svg  drawn from the checklists and from demo.txt; a test of the house compares them
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gates
import session

HERE = Path(__file__).parent
TRANSCRIPT = HERE / "demo.txt"
WORKSPACE = "workspace"  # without a hyphen, at which the transcript would break a long path


def main() -> int:
    """Draw both pictures and return the exit status: 1 when a demonstration was played and failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--play", action="store_true", help="play the demonstration again for a new transcript")
    if parser.parse_args().play or not TRANSCRIPT.exists():
        printed = play()
        if printed is None:
            return 1
        TRANSCRIPT.write_text(printed, encoding="utf-8")
    for name, picture in pictures().items():
        (HERE / name).write_text(picture, encoding="utf-8")
    return 0


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files. Raises ValueError when the transcript lacks a scene."""
    return {"gates.svg": gates.draw(), "session.svg": session.draw(TRANSCRIPT.read_text(encoding="utf-8"))}


def play() -> str | None:
    """Play the demonstration in a folder of its own; return what it printed, or None when it failed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "trainwright.server.cli", "demo", "--workspace", WORKSPACE],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.stderr.write(done.stdout[-4000:])
            return None
        for place in (os.path.realpath(folder), folder):
            done.stdout = done.stdout.replace(f"{place}/", "")
        return done.stdout


if __name__ == "__main__":
    sys.exit(main())
