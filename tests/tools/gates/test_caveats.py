"""What figures do not show stands under them: intervals, plain predictors, chosen seeds, weights of unknown origin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.gates.caveats import BEFORE_PLANNING, caveats
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.run.looked_at import LookedAt, Opened, OpenedFile, SplitLook

pytestmark = pytest.mark.requirement("GATE-5", "GATE-6", "PHASE-6")


def project(
    test: float = 0.9,
    interval: tuple[float, float] = (0.85, 0.94),
    validation: float = 0.91,
    *,
    target: float = 0.8,
    constant: float = 0.5,
    seed: int = 42,
    skipped: int = 0,
    opened: tuple[str, ...] = (),
) -> Any:
    """Return evidence of an exported project whose goal is an accuracy."""
    look = LookedAt(splits={"test": SplitLook(size=100, constant={"accuracy": constant})})
    certified = {"test": {"accuracy": test}, "validation": {"accuracy": validation}}
    files = Opened(files={name: OpenedFile() for name in opened})
    export = SimpleNamespace(
        is_complete=True, certified=lambda split="validation": certified[split], part=lambda _: files,
        evaluation=SimpleNamespace(splits={"test": {"intervals": {"accuracy": list(interval)}}}),
    )  # fmt: skip
    return SimpleNamespace(
        export=export, final=None, baseline=None, goal_metric="accuracy",
        goal={"metric": "accuracy", "direction": "maximize", "target": target},
        reaches_goal=lambda value: value >= target,
        smoke=SimpleNamespace(part=lambda _: look, data=SimpleNamespace(skipped=skipped)),
        config=SimpleNamespace(data=SimpleNamespace(split=SplitSection(seed=seed))),
    )  # fmt: skip


def test_a_plain_result_leaves_open_what_came_before_planning_alone() -> None:
    assert caveats(project()) == [BEFORE_PLANNING]
    assert caveats(SimpleNamespace(export=None)) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"constant": 0.86}, "Not shown to be better on the test rows than the same answer for every row 0.86."),
        ({"skipped": 12}, "12 rows without a target"),
        ({"seed": 1337}, "divided by seed 1337, which was chosen"),
        ({"opened": ("model/net.pt", "notes.txt")}, "It begins from model/net.pt: on which rows"),
    ],
)
def test_each_of_them_is_told_by_itself(given: dict[str, Any], told: str) -> None:
    first, last = caveats(project(**given))
    assert first.startswith(told) or told in first
    assert last == BEFORE_PLANNING
