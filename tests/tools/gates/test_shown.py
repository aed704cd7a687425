"""A goal is reached where the worse end of every interval meets it; else the head says what is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.gates.exits import worded
from trainwright.tools.gates.improvement import seeds_interval
from trainwright.tools.gates.shown import certified_figure, interval_text, is_shown

pytestmark = pytest.mark.requirement("GATE-5", "PHASE-6", "PHASE-12")
AT_LEAST = {"metric": "accuracy", "direction": "maximize", "target": 0.85}


def figure(value: float, low: float, high: float, rows: int = 135) -> dict[str, Any]:
    return {"value": value, "interval": [low, high], "rows": rows, "of": f"{rows} rows"}


def seeds(value: float, low: float, high: float) -> dict[str, Any]:
    return {"value": value, "interval": [low, high], "of": "4 seeds"}


def end(reached: float, goal: dict[str, Any] = AT_LEAST, **more: Any) -> dict[str, Any]:
    judged = {name: more.pop(name) for name in ("seeds", "validation", "test") if name in more}
    met = reached >= goal["target"] if goal["direction"] == "maximize" else reached <= goal["target"]
    return {"goal": goal, "reached": reached, "met": met, **({"judged": judged} if judged else {}), **more}


MET = "Goal reached on these rows"
OPEN = "; that it is reached on others is not shown"


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        (
            end(0.9, validation=figure(0.9, 0.86, 0.94)),
            "Goal reached: 0.9 of 0.85 (validation accuracy, higher is better; 95 % interval 0.86 to 0.94 on 135 rows)",
        ),
        (
            end(0.876, validation=figure(0.876, 0.80, 0.94)),
            f"{MET}: 0.876 of 0.85 (validation accuracy, higher is better; 95 % interval 0.8 to 0.94 on 135 "
            f"rows){OPEN}: about 1200 held-out rows would show it",
        ),
        (
            end(0.9, validation=figure(0.9, 0.86, 0.94), test=figure(0.87, 0.82, 0.92)),
            f"{MET}: 0.9 of 0.85 (validation accuracy, higher is better; 95 % interval 0.86 to 0.94 on 135 "
            f"rows); test 0.87, 95 % interval 0.82 to 0.92 on 135 rows{OPEN}: about 840 held-out rows would show it",
        ),
        (
            end(0.8846, validation=figure(0.8846, 0.82, 0.94), test=figure(0.85304, 0.792, 0.916, 179)),
            f"{MET}: 0.8846 of 0.85 (validation accuracy, higher is better; 95 % interval 0.82 to 0.94 on 135 "
            f"rows); test 0.85304, 95 % interval 0.792 to 0.916 on 179 rows{OPEN}: "
            "about 72000 held-out rows would show it",
        ),
        (
            end(0.9, validation=figure(0.9, 0.80, 1.0, 32) | {"unit": "groups", "of": "128 rows in 32 groups"}),
            f"{MET}: 0.9 of 0.85 (validation accuracy, higher is better; 95 % interval 0.8 to 1 on 128 rows in "
            f"32 groups){OPEN}: about 130 held-out groups would show it",
        ),
        (
            end(0.984, AT_LEAST | {"target": 0.98}, seeds=seeds(0.979, 0.975, 0.983)),
            "Goal not reached: 0.979 of 0.98 (validation accuracy, higher is better; mean of 4 seeds, 95 % interval "
            "0.975 to 0.983); the run's own 0.984",
        ),
        (
            end(1.0, missed_on_test=0.633, test=figure(0.633, 0.55, 0.72), validation=figure(1.0, 0.98, 1.0)),
            "Goal not confirmed by the test: 1 of 0.85 (validation accuracy, higher is better; 95 % interval 0.98 to 1 "
            "on 135 rows); MISSED on test: 0.633",
        ),
        (
            end(0.98, test=figure(0.93, 0.88, 0.95), validation=figure(0.98, 0.97, 0.99)),
            "Goal reached: 0.98 of 0.85 (validation accuracy, higher is better; 95 % interval 0.97 to 0.99 on 135 "
            "rows); test 0.93, 95 % interval 0.88 to 0.95 on 135 rows: worse than validation beyond chance",
        ),
        (
            end(0.9013, test=figure(0.8787, 0.853, 0.9, 750), validation=figure(0.9013, 0.878, 0.921, 750)),
            "Goal reached: 0.9013 of 0.85 (validation accuracy, higher is better; 95 % interval 0.878 to 0.921 on 750 "
            "rows)",
        ),
        (
            end(0.9, missed_on_test=0.84, test=figure(0.84, 0.78, 0.91), validation=figure(0.9, 0.86, 0.94)),
            "Goal reached on validation alone: 0.9 of 0.85 (validation accuracy, higher is better; 95 % interval 0.86 "
            "to 0.94 on 135 rows); MISSED on test: 0.84",
        ),
        (
            end(1.0, certified=False, refuted="validation accuracy: 1 reported, 0.633 by the exported program"),
            "Goal not reached: 1 of 0.85 (validation accuracy, higher is better); refuted by its own program: "
            "validation accuracy: 1 reported, 0.633 by the exported program; not independently evaluated",
        ),
        (
            end(0.09, {"metric": "mae", "direction": "minimize", "target": 0.1}, validation=figure(0.09, 0.08, 0.11)),
            f"{MET}: 0.09 of 0.1 (validation mae, lower is better; 95 % interval 0.08 to 0.11 on 135 rows)"
            f"{OPEN}: about 540 held-out rows would show it",
        ),
        (
            end(1.0, validation={"value": 1.0, "rows": 10, "of": "10 episodes", "unit": "episodes"}),
            f"{MET.replace('rows', 'episodes')}: 1 of 0.85 (validation accuracy, higher is better; on 10 episodes)"
            f"{OPEN}: about 30 episodes would show it",
        ),
        (
            end(1.0, validation={"value": 1.0, "rows": 400, "of": "400 rows in 4 times", "is_open": True}),
            f"{MET}: 1 of 0.85 (validation accuracy, higher is better; on 400 rows in 4 times){OPEN}",
        ),
        (end(0.9), "Goal reached: 0.9 of 0.85 (validation accuracy, higher is better)"),  # of an earlier version
    ],
)
def test_the_head_says_how_far_a_goal_is_shown(recorded: dict[str, Any], told: str) -> None:
    assert worded(recorded) == told


def test_the_interval_over_seeds_is_students_and_never_narrower_than_the_metrics_rounding() -> None:
    mean, (low, high) = seeds_interval([0.97, 0.98, 0.99], 0)
    assert (round(mean, 6), round(low, 4), round(high, 4)) == (0.98, 0.9552, 1.0048)  # 4.3027 * 0.01 / sqrt(3)
    _, (low, high) = seeds_interval([0.9, 0.9, 0.9], 100)
    assert 0.005 < high - low < 0.02


def test_rows_of_few_times_are_told_as_such() -> None:
    record = {"rows": 230, "groups": 5, "grouped_by": "times", "intervals": {"mae": [2.9, 4.4]}}
    run: Any = SimpleNamespace(
        is_complete=True, certified=lambda split: {"mae": 3.6}, evaluation=SimpleNamespace(splits={"test": record})
    )
    found = certified_figure(run, "test", "mae")
    assert interval_text(found) == "95 % interval 2.9 to 4.4 on 230 rows in 5 times"
    assert (found["rows"], found["unit"]) == (5, "times"), "by which an interval shrinks"


@pytest.mark.parametrize(
    ("record", "is_open"),
    [
        ({"rows": 900}, False),
        ({"rows": 900, "groups": 4, "grouped_by": "times", "open": ["mae"]}, True),
        ({"rows": 900, "open": ["auc"]}, False),
        ({"rows": 900, "own": ["mae"]}, True),
        ({"rows": 900, "groups": 4, "grouped_by": "times", "intervals": {"mae": [1.0, 2.0]}}, False),
    ],
)
def test_without_an_interval_few_rows_and_own_functions_show_nothing(record: dict[str, Any], *, is_open: bool) -> None:
    run: Any = SimpleNamespace(
        is_complete=True, certified=lambda split: {"mae": 1.5}, evaluation=SimpleNamespace(splits={"test": record})
    )
    found = certified_figure(run, "test", "mae")
    goal = {"metric": "mae", "direction": "minimize", "target": 2.5}
    assert found.get("is_open", False) is is_open
    assert is_shown(goal, found) is not is_open
