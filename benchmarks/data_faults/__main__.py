"""Leaks injected into clean data, and which of them are found. The last line is one JSON object.

`recall`: faults whose kind was found, of all injected. `precision`: findings that are right, of all on injected
and on clean sets. Held-out sets, and held-out seeds of all sets, are counted apart (`held_out`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_faults.bases import BASES, HELD_OUT, frames_of
from data_faults.faults import FAULTS
from data_faults.priced import CASES, price

from trainwright.trainer.data.leaks import find_leaks

SEEDS = range(5)
HELD_OUT_SEEDS = range(100, 105)


class Counts:
    """Findings of one part of the cases."""

    def __init__(self) -> None:
        self.by_fault: dict[str, list[bool]] = defaultdict(list)
        self.right = self.wrong = self.clean = self.false_on_clean = 0

    def figures(self) -> dict[str, Any]:
        """Return recall and precision over all cases."""
        every = [hit for hits in self.by_fault.values() for hit in hits]
        total = self.right + self.wrong
        return {
            "faults": len(every),
            "recall": round(float(np.mean(every)), 4) if every else None,
            "precision": round(self.right / total, 4) if total else None,
            "clean_sets": self.clean,
            "false_on_clean": self.false_on_clean,
        }


def count(names: list[str], seeds: range, *, talk: bool) -> Counts:
    """Inject every fault that fits into every set, under every seed."""
    counts = Counts()
    for name in names:
        for seed in seeds:
            base = BASES[name](seed)
            rng = np.random.default_rng([seed, 9])
            found = find_leaks(frames_of(base, base.rows, rng), base.target)
            counts.clean += 1
            counts.wrong += len(found)
            counts.false_on_clean += bool(found)
            if found and talk:
                print(f"  clean {name} {seed}: {[(one.id, one.message) for one in found]}")
            for place, fault in enumerate(FAULTS):
                if not fault.fits(base):
                    continue
                rng = np.random.default_rng([seed, place, 17])
                found = find_leaks(fault.inject(base, rng), base.target, given=fault.given)
                kinds = Counter(one.kind for one in found)
                hit = kinds[fault.right[0]] > 0
                right = sum(kinds[kind] for kind in fault.right)
                counts.by_fault[fault.name].append(hit)
                counts.right += right
                counts.wrong += len(found) - right
                if talk and (not hit or len(found) > right):
                    print(f"  {fault.name} {name} {seed}: {'found' if hit else 'MISSED'}; {[one.id for one in found]}")
    return counts


def main() -> None:
    """Count, print a table, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--talk", action="store_true", help="say each case that went wrong")
    parser.add_argument("--only", help="one clean set")
    parser.add_argument("--held-out", action="store_true", help="also the sets and seeds that nobody looked at")
    options = parser.parse_args()
    began = time.perf_counter()
    looked_at = [name for name in BASES if name not in HELD_OUT]
    names = (
        [options.only] if options.only else (["iris", "churn", "series", "patients"] if options.quick else looked_at)
    )
    counts = count(names, range(1) if options.quick else SEEDS, talk=options.talk)
    for fault, hits in counts.by_fault.items():
        print(f"{fault:20} {sum(hits):3} of {len(hits):3}")
    figures = {"kinds": len(counts.by_fault), **counts.figures()}
    if options.held_out:
        apart = count(list(HELD_OUT), HELD_OUT_SEEDS, talk=options.talk)
        figures["held_out_sets"] = apart.figures()
        figures["held_out_seeds"] = count(looked_at, HELD_OUT_SEEDS, talk=options.talk).figures()
    figures["leaks_priced"] = {} if options.only else {kind: price(kind) for kind in CASES}
    print(json.dumps({**figures, "seconds": round(time.perf_counter() - began, 1)}))


if __name__ == "__main__":
    main()
