"""Cheats come out as declared, and people read the same: one of each of twelve families always, all by night."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # cheat_suite is run by `make cheats` too, without pytest
from cheat_suite.case import Case, all_cases
from cheat_suite.playing import Player, in_playing_order
from cheat_suite.table import count, read, table
from tests.worlds.flowers import World
from tests.worlds.warm import trainwright_command

from trainwright.trainer.starting.wall import MIN_ABI, landlock_abi

CASES = all_cases()
TELLING = frozenset({
    "train-on-test", "train-on-changed-code", "checkpoint-manifest", "row-seed", "ledger-rewritten-whole",
    "grant-raised", "document-path", "skip-diagnostics", "two-gates-at-once", "evidence-added", "lower-the-goal",
    "own-status",
})  # fmt: skip
"""One of each family; the others are variants of them, or of what the tests of their rooms show."""
PLAYED: list[Any] = [
    pytest.param(
        case,
        id=case.id,
        marks=[pytest.mark.requirement(*case.requirements), *([] if case.id in TELLING else [pytest.mark.long])],
    )
    for case in in_playing_order(CASES)
]


WALLED_OFF = [case for case in CASES if case.is_walled_off]
INSIDE: list[Any] = [
    pytest.param(case, id=case.id, marks=[] if case.id in TELLING else [pytest.mark.long])
    for case in in_playing_order(WALLED_OFF)
]


@pytest.fixture(scope="module")
def player(flowers: World) -> Iterator[Player]:
    with Player(flowers, trainwright_command(os.environ)) as opened:
        yield opened


@pytest.mark.parametrize("case", PLAYED)
def test_a_cheat_comes_out_as_declared(player: Player, case: Case) -> None:
    verdict = player.play(case)
    assert verdict.outcome == case.expected, f"{verdict.by}: {verdict.told}"


@pytest.mark.requirement("GATE-5")
@pytest.mark.skipif(landlock_abi() < MIN_ABI, reason="this kernel has no Landlock for workers")
@pytest.mark.parametrize("case", INSIDE)
def test_inside_the_wall_what_reaches_beyond_code_and_data_is_refused(player: Player, case: Case) -> None:
    verdict = player.play(case, "a shell inside the wall")
    assert verdict.outcome == "refused", f"{verdict.by}: {verdict.told}"


@pytest.mark.requirement("GATE-5")
def test_the_table_in_the_document_holds_every_case_with_its_outcome() -> None:
    told = [(case, case.expected, case.expected_at("a shell inside the wall")) for case in CASES]
    assert read() == table(told), "`make cheats` writes it"


@pytest.mark.requirement("GATE-5")
def test_there_are_cheats_of_every_kind() -> None:
    assert count([(case, case.expected) for case in CASES])["cases"] >= 60
    assert {case.attacker for case in CASES} == {"tools", "files", "code"}
    assert len({case.family for case in CASES if case.id in TELLING}) == len(TELLING) == 12


@pytest.mark.requirement("GATE-5", "GATE-6")
def test_no_cheat_with_tools_or_user_code_is_missed() -> None:
    counted = count([(case, case.expected) for case in CASES])
    assert (counted["missed_tools"], counted["missed_code"]) == (0, 0)
