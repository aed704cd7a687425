"""`make cheats`: play every cheat, print what came of it, and write the table in docs/security.md.

The last line is one JSON object: cases, refused, detected, and missed by who played it: missed_tools, missed_code,
missed_shell; and of the cases that forge rows or the question: heads, head_true and head_false, by whether the head of
a card states nothing false. Exits with 1 when a case came out otherwise than declared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # what the tests share is named from the root, as pytest has it
from cheat_suite.case import Case, all_cases
from cheat_suite.judging import Verdict
from cheat_suite.playing import Player, in_playing_order
from cheat_suite.table import count, count_heads, write
from tests.worlds.flowers import World


def main() -> int:
    """Play, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*", help="ids or families of cases; by default all, and the table is written")
    only = set(parser.parse_args().only)
    declared = all_cases()
    cases = [case for case in in_playing_order(declared) if not only or {case.id, case.family} & only]
    played: list[tuple[Case, Verdict]] = []
    unexpected = 0
    with tempfile.TemporaryDirectory() as folder, Player(World(Path(folder))) as player:
        for case in cases:
            began = time.monotonic()
            verdict = player.play(case)
            played.append((case, verdict))
            is_other = verdict.outcome != case.expected
            unexpected += is_other
            mark = f"  EXPECTED {case.expected}: {verdict.told[:1000]}" if is_other else ""
            seconds = time.monotonic() - began
            true = "  said {:.4g} [{:.3g}, {:.3g}], true {:.4g}".format(*verdict.truth) if verdict.truth else ""
            shown = "  {}: reported {:.4g}, certified {:.4g}".format(*verdict.numbers) if verdict.numbers else ""
            print(f"{case.id:<32} {verdict.outcome:<9} {verdict.by:<13}{seconds:5.1f} s{shown}{true}{mark}", flush=True)
    if not only:
        write(sorted(played, key=lambda one: declared.index(one[0])))
    counted = count([(case, verdict.outcome) for case, verdict in played])
    print(json.dumps({**counted, **count_heads(played)}))
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
