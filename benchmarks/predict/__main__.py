"""Final models answer raw inputs with the certified values, from a fresh folder that holds only `final_model/`.

`make predict` trains and exports a small model for every built-in source and task, lets the clean room compute its
figure on the fixed test rows, then lets `predict.py` answer the raw test inputs in an isolated process, and computes
the same figure from its answers, in the user's terms, and the truth that the case kept.

Prints a table and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys

import torch
from cases import CASES
from language import LANGUAGE
from play import play


def main() -> int:
    """Play, print, and return the exit status: 0 when all answers have the certified figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    asked = parser.parse_args()
    chosen = [case for case in CASES + LANGUAGE if any(part in case.name for part in asked.only.split(","))]
    torch.set_num_threads(1)  # a pool of threads would not survive a fork
    found = []
    for case in chosen:
        found.append(play(case))
        print(found[-1].line, flush=True)
    equal = sum(one.is_equal for one in found)
    print(json.dumps({"models": len(found), "answered": sum(one.answered for one in found), "equal": equal}))
    return 0 if found and equal == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
