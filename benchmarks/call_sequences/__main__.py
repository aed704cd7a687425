"""Random sequences of calls on a real workspace, held to a small model of the phases (hypothesis, stateful).

`make model-test` makes 10,000 sequences, on every core a share of them. Prints what they held and, as its last line,
one JSON object; ends with the first sequence that contradicts the model where there is one.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from playing import SEEDS_APART, play_share, watch
from psutil import cpu_count


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=10, help="calls of one sequence, at most")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop before that many sequences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=cpu_count(logical=False) or 1)
    asked = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    context = multiprocessing.get_context("spawn")
    found = context.Event()
    with ProcessPoolExecutor(asked.processes, context, initializer=watch, initargs=(found,)) as pool:
        each = math.ceil(asked.sequences / asked.processes)
        share = partial(play_share, sequences=each, steps=asked.steps, minutes=asked.minutes)
        seeds = (asked.seed + SEEDS_APART * index for index in range(asked.processes))
        for held in as_completed([pool.submit(share, seed) for seed in seeds]):
            counts += held.result()
    figures = {
        "sequences": counts["sequences"],
        "calls": counts["steps"] - counts["sequences"],
        "contradictions": 0,
        "real_runs": counts["real runs"],
        "processes": asked.processes,
        "seconds": round(time.monotonic() - began),
    }
    for what, number in sorted(counts.items()):
        print(f"  {what:<48} {number:>8}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
