"""`make cheats`: play every cheat, print what came of it, and write the table in docs/security.md.

The last line is one JSON object: cases, refused, detected, and missed by who played it: missed_tools, missed_code,
missed_shell; inside and inside_refused, of those that the wall stands against; and of the cases that forge rows or the
question: heads, head_true and head_false, by whether the head of a card states nothing false. Exits with 1 when a case
came out otherwise than declared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # what the tests share is named from the root, as pytest has it
from cheat_suite.case import Case, Level, all_cases
from cheat_suite.judging import Verdict
from cheat_suite.playing import Player, in_playing_order
from cheat_suite.table import count, count_heads, write
from tests.worlds.flowers import World

from trainwright.trainer.starting.wall import MIN_ABI, landlock_abi


def main() -> int:
    """Play, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*", help="ids or families of cases; by default all, and the table is written")
    only = set(parser.parse_args().only)
    declared = all_cases()
    cases = [case for case in in_playing_order(declared) if not only or {case.id, case.family} & only]
    played: list[tuple[Case, Verdict]] = []
    unexpected = 0
    inside: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory() as folder, Player(World(Path(folder))) as player:
        for case in cases:
            played.append((case, verdict := _shown(player, case, "a shell")))
            unexpected += verdict.outcome != case.expected
            if case.is_walled_off and landlock_abi() >= MIN_ABI:
                inside[case.id] = walled = _shown(player, case, "a shell inside the wall")
                unexpected += walled.outcome != "refused"
    if not only:
        write(sorted(played, key=lambda one: declared.index(one[0])), inside)
    counted = count([(case, verdict.outcome) for case, verdict in played])
    walls = {"inside": len(inside), "inside_refused": sum(one.outcome == "refused" for one in inside.values())}
    print(json.dumps({**counted, **walls, **count_heads(played)}))
    return 1 if unexpected else 0


def _shown(player: Player, case: Case, level: Level) -> Verdict:
    """Play a case at a level, and print what came of it."""
    began = time.monotonic()
    verdict, expected = player.play(case, level), case.expected_at(level)
    seconds = time.monotonic() - began
    mark = f"  EXPECTED {expected}: {verdict.told[:1000]}" if verdict.outcome != expected else ""
    true = "  said {:.4g} [{:.3g}, {:.3g}], true {:.4g}".format(*verdict.truth) if verdict.truth else ""
    shown = "  {}: reported {:.4g}, certified {:.4g}".format(*verdict.numbers) if verdict.numbers else ""
    print(f"{case.id:<32} {verdict.outcome:<9} {verdict.by:<13}{seconds:5.1f} s{shown}{true}{mark}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
