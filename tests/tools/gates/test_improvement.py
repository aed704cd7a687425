"""Values of repetitions are certified ones of all, or reported ones of all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.gates.improvement import compare, confirmed_value, repeated_values, told_separated
from trainwright.tools.ledger.events import RunEvaluated


def run(name: str, certified: float | None, reported: float, *, to_export: bool = True, **record: Any) -> Any:
    """A repetition with what the ledger and its process say of it."""
    metrics = {} if certified is None else {"accuracy": certified}
    found = RunEvaluated(run_id=name, splits={"validation": {"metrics": metrics}}, **record)
    evaluation = None if record.get("problem") == "none" else found
    return SimpleNamespace(
        id=name,
        evaluation=evaluation,
        certified=lambda: evaluation.certified() if evaluation else {},
        best_value=lambda metric: evaluation.certified().get(metric, reported) if evaluation else reported,
        reported_value=lambda metric: reported,
        directory=SimpleNamespace(specification=lambda: SimpleNamespace(exports_program=to_export)),
    )


@pytest.mark.requirement("GATE-6", "PHASE-5")
def test_certified_values_are_compared_where_every_repetition_has_one() -> None:
    runs = {"baseline": [run("a", 0.8, 0.81)], "best": [run("b", 0.9, 0.91)]}
    assert repeated_values(runs, "accuracy") == ({"baseline": [0.8], "best": [0.9]}, True, [])


@pytest.mark.requirement("GATE-6", "PHASE-5")
def test_where_one_cannot_be_evaluated_the_reported_values_of_all_are_compared() -> None:
    runs = {"baseline": [run("a", 0.8, 0.81)], "best": [run("b", None, 0.91, problem="no ONNX")]}
    assert repeated_values(runs, "accuracy") == ({"baseline": [0.81], "best": [0.91]}, False, [])


@pytest.mark.requirement("GATE-6", "PHASE-5")
@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (run("b", None, 0.91, problem="none"), "run b exported no program: its value cannot be compared"),
        (run("b", None, 0.91, to_export=False, problem="none"), "run b exported no program: its value cannot be"),
        (run("b", 0.6, 0.99, differences=["validation accuracy: 0.99 reported"]), "run b: validation accuracy: 0.99"),
        (run("b", float("nan"), 0.9), "run b recorded no finite validation accuracy"),
    ],
)
def test_a_repetition_that_cannot_be_compared_is_named(other: Any, problem: str) -> None:
    _, _, (found,) = repeated_values({"baseline": [run("a", 0.8, 0.8)], "best": [other]}, "accuracy")
    assert found.startswith(problem)


@pytest.mark.requirement("GATE-6")
def test_a_confirmed_configurations_value_is_the_mean_of_its_certified_repetitions() -> None:
    evidence: Any = SimpleNamespace(
        improvement=({"certified": True, "best": [0.9, 0.94]}, []), confirmation={"best_value": 0.99}
    )
    assert confirmed_value(evidence) == ("best configuration's repetitions", pytest.approx(0.92))
    evidence.improvement = ({"best": [0.9, 0.94]}, [])
    assert confirmed_value(evidence) == ("best trial", 0.99)


@pytest.mark.requirement("PHASE-5", "PHASE-10")
@pytest.mark.parametrize(
    ("baseline", "best", "direction", "is_told"),
    [
        ([0.80, 0.81, 0.805], [0.82, 0.83, 0.87], "maximize", True),
        ([0.80, 0.81, 0.805], [0.78, 0.79, 0.73], "minimize", True),
        ([0.80, 0.81, 0.805], [0.82, 0.83, 0.87], "minimize", False),
        ([0.80, 0.81, 0.805], [0.81, 0.83, 0.87], "maximize", False),
        ([0.80, 0.81], [0.82, 0.87], "maximize", False),
        ([0.3, 0.3, 0.3], [0.30000000000000004, 0.30000000000000004, 0.30000000000000004], "maximize", False),
        ([0.80, 0.81, 0.805], [0.90, 0.91, 0.905], "maximize", False),
    ],
    ids=["higher", "lower", "worse", "one is level", "one in six by chance", "last bits", "settled by its interval"],
)
def test_seeds_that_all_beat_the_baselines_are_told_where_the_interval_settles_nothing(
    baseline: list[float], best: list[float], direction: str, *, is_told: bool
) -> None:
    found = compare(baseline, best, direction) | {"baseline": baseline, "best": best}
    assert bool(told_separated(found)) is is_told
