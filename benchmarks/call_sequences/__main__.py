"""Random sequences of calls on a real workspace, held to a small model of the phases (hypothesis, stateful).

`make model-test` makes 10,000 sequences. Prints what they held and, as its last line, one JSON object; ends with the
first sequence that contradicts the model where there is one.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

from playing import play, prepared


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10, help="calls of one sequence, at most")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop before that many sequences")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108 - a fresh folder in it, where there is one: thousands of small files
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name, prepared(Path(name)) as stages:
        after = time.monotonic()
        counts = play(stages, asked.sequences, steps=asked.steps, seed=asked.seed, minutes=asked.minutes)
        figures = {
            "sequences": counts["sequences"],
            "calls": counts["steps"] - counts["sequences"],
            "contradictions": 0,
            "real_runs": stages.library.trained,
            "preparation_seconds": round(after - began),
            "seconds": round(time.monotonic() - after),
        }
    for what, number in sorted(counts.items()):
        print(f"  {what:<48} {number:>8}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
