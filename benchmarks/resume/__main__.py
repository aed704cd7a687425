"""Runs killed at random moments, resumed, and compared bit for bit with runs that were left alone.

`make bench-resume` kills ours at least 200 times, at any moment from start-up to the last checkpoint, and trainers of
other libraries under our worker. Prints tables and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import math
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from killing import Tally, kill_and_resume
from scenarios import ALWAYS, OWN_TRAINERS, SCENARIOS, SHARE


def ours(kills: int, most: int, seed: int) -> tuple[dict[str, Tally], collections.Counter[str]]:
    """Return the tally of every scenario, and in which stages the kills fell."""
    for module in ("sklearn.datasets", "torch._dynamo"):  # once, and not again in every fork
        importlib.import_module(module)
    draw, moments = random.Random(seed), collections.Counter[str]()
    each = kills / sum(SHARE.get(name, 1.0) for name in SCENARIOS)
    tallies = {}
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(SCENARIOS):
            folder = Path(place, str(number))
            wanted = max(math.ceil(each * SHARE.get(name, 1.0)), 1)
            tallies[name] = kill_and_resume(folder, name, wanted, draw, moments, most=most)
            print(f"{name:<42} {tallies[name].kills:>5} kills {tallies[name].in_identical:>5} identical", flush=True)
    return tallies, moments


def own_trainers(names: list[str], kills: int, seed: int) -> dict[str, dict[str, int]]:
    """Return the tally of every library's trainer that was run as it is under our worker, and killed in training."""
    for module in ("transformers", "trl", "datasets", "lightning", "torchmetrics"):  # once, and not again in every fork
        importlib.import_module(module)
    for module, name in (("transformers", "Trainer"), ("transformers", "LlamaForCausalLM")):
        getattr(importlib.import_module(module), name)
    for name in ("SFTTrainer", "DPOTrainer", "GRPOTrainer", "RewardTrainer", "KTOTrainer", "RLOOTrainer"):
        getattr(importlib.import_module("trl"), name)
    draw, moments, found = random.Random(seed), collections.Counter[str](), {}
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            tally = kill_and_resume(Path(place, name), name, kills, draw, moments, most=3, anywhere=False)
            found[name] = {"kills": tally.kills, "identical": tally.in_identical}
            print(f"{name:<42} {tally.kills:>5} kills {tally.in_identical:>5} identical", flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200, help="of our runs, over all scenarios")
    parser.add_argument("--own-kills", type=int, default=100, help="of each library's trainer under our worker")
    parser.add_argument("--only-own", nargs="+", choices=list(OWN_TRAINERS), help="these trainers, and nothing else")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one kill a run, and say so in the result")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    if asked.only_own:
        print(json.dumps(own_trainers(asked.only_own, asked.own_kills, asked.seed)))
        return
    tallies, moments = ours(asked.kills, 1 if asked.quick else 4, asked.seed)
    own = own_trainers(list(ALWAYS), asked.own_kills, asked.seed)
    print(f"\nkills by the run's stage: {dict(moments.most_common())}")
    total = sum(tally.kills for tally in tallies.values())
    same = sum(tally.in_identical for tally in tallies.values())
    figures: dict[str, Any] = {
        "kills": total,
        "identical": same,
        "seconds": round(time.monotonic() - began, 1),
        **own,
        "quick": asked.quick,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
