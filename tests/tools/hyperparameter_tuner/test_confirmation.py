"""The verdict over repeated seeds: arithmetic that can be checked by hand."""

from __future__ import annotations

import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from scipy import stats

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.improvement import (
    _seed_problems,
    _without_effect,
    compare,
    confirmation_seeds,
    least_seeds,
    look_number,
    resolution,
)
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.searches import change_to_best, next_search
from trainwright.tools.workspace.tables import Run, now
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run.evidence import Summary


@pytest.mark.requirement("TUNE-5", "PHASE-5")
def test_the_interval_is_the_paired_t_interval() -> None:
    baseline, best = [0.90, 0.91, 0.89, 0.92], [0.93, 0.95, 0.94, 0.94]
    found = compare(baseline, best, "maximize")
    expected = stats.ttest_rel(best, baseline).confidence_interval(0.95)
    assert found["improvement_mean"] == pytest.approx(0.035)
    assert found["improvement_low"] == pytest.approx(expected.low)
    assert found["improvement_high"] == pytest.approx(expected.high)
    # By hand: deviation of (0.03, 0.04, 0.05, 0.02) is 0.012910; t(0.975, 3) = 3.182446
    assert found["improvement_low"] == pytest.approx(0.035 - 3.182446 * 0.012909944 / math.sqrt(4), abs=1e-7)
    assert found["validated"] is True


@pytest.mark.requirement("PHASE-5")
def test_whoever_looks_again_needs_a_wider_interval() -> None:
    baseline, best = [0.90, 0.91, 0.89, 0.92], [0.93, 0.95, 0.94, 0.94]
    found = [compare(baseline, best, "maximize", look=look) for look in (1, 2, 3, 4, 5)]
    assert [each["confidence"] for each in found] == pytest.approx([0.95, 0.975, 0.9875, 0.99375, 0.996875])
    low = stats.ttest_rel(best, baseline).confidence_interval(0.975).low
    assert found[1]["improvement_low"] == pytest.approx(low)
    assert [each["validated"] for each in found] == [True, True, True, False, False]


@pytest.mark.requirement("PHASE-5")
def test_looks_are_counted_by_the_seeds_that_a_configuration_has() -> None:
    def study(name: str, seeds: list[int] | None, rate: float = 0.1) -> dict[str, Any]:
        found = {"seeds": seeds, "best_parameters": {"optimizer.learning_rate": rate}}
        return {"study_id": name, "confirmation": found if seeds else None}

    rate = {"optimizer.learning_rate": 0.1}

    told = [
        study("other configuration", [7, 8, 9]),
        study("first", None),
        study("first", [1, 2, 3]),
        study("failed", None),
        study("second", [1, 2, 3, 4, 5, 6]),
    ]
    assert look_number(told, "first", [1, 2, 3], rate) == 1
    assert look_number(told, "second", [1, 2, 3, 4, 5, 6], rate) == 2
    assert look_number(told, "at work", [1, 2, 3], {"optimizer.learning_rate": 0.2}) == 3
    assert look_number(told, "at work", [1, 2, 3], rate) == 2, "the same runs once more are no further look"
    assert look_number([], "at work", [1, 2, 3], rate) == 1


@pytest.mark.requirement("PHASE-5")
def test_one_lucky_seed_is_no_improvement() -> None:
    found = compare([0.90, 0.91, 0.90], [0.99, 0.91, 0.90], "maximize")
    assert found["improvement_mean"] > 0.0
    assert found["validated"] is False


@pytest.mark.requirement("PHASE-5", "GATE-2")
@pytest.mark.parametrize(
    ("gain", "spread", "repeats", "changed"),
    [
        (0.3, 0.1, 3, {"trials": 4, "confirmation_repeats": 6}),
        (0.1, 0.3, 3, {"trials": 8}),
        (0.3, 0.1, 20, {"trials": 8, "confirmation_repeats": 20}),
    ],
)
def test_a_search_that_settled_nothing_goes_on_in_its_own_space(
    gain: float, spread: float, repeats: int, changed: dict[str, Any]
) -> None:
    space = {"optimizer.learning_rate": {"type": "float", "low": 1e-3, "high": 1e-2, "log": True}}
    search = SearchSection.model_validate({"trials": 4, "space": space, "confirmation_repeats": repeats})
    evidence: Any = SimpleNamespace(
        name="digits",
        study=SimpleNamespace(search=search.model_dump(mode="json")),
        improvement=({}, []),
        entries=lambda kind: [],
        trials_left=100,
        seconds_left=None,
        confirmation={},
        spent="",
        goal={"direction": "maximize"},
        reaches_goal=lambda value: value >= 0.85,
        goal_metric="accuracy",
        config_digest="",
        facts=SimpleNamespace(started={}, seals={}),
        baseline=SimpleNamespace(row=two_seconds(), best_value=lambda metric: 0.81239),
        call=lambda tool, why, **arguments: NextCall(tool=tool, arguments=arguments, why=why),
    )
    found = {"improvement_mean": gain, "baseline_spread": spread, "best": [0.92, 0.84, 0.92]}
    call = next_search(evidence, found)
    assert (call.tool, call.arguments["search"]) == ("start_tuning", {"space": space, **changed})
    assert SearchSection.model_validate(call.arguments["search"]) != search
    assert "repetitions of 2 s: about" in call.why
    assert "{'accept': 0.8123}" in call.why, "what was reached meets the value that the owner is asked to accept"


@pytest.mark.requirement("PHASE-5", "GATE-2")
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"spent": "no hours are left"},
        {"best": [0.92, 0.84, 0.92]},
        {"confirmation": {"best_value": 0.84, "best_runs": ["a"], "baseline_runs": ["b"]}},
        {"confirmation": {"best_value": 0.92, "best_runs": ["a"], "baseline_runs": ["a"]}},
    ],
)
def test_a_best_that_reaches_the_goal_with_every_seed_is_taken_unless_it_is_the_baseline(
    changed: dict[str, Any],
) -> None:
    best, rate = changed.get("best", [0.92, 0.86, 0.92]), {"optimizer.learning_rate": 0.005}
    evidence: Any = SimpleNamespace(
        spent=changed.get("spent", ""),
        confirmation={
            "best_value": 0.9,
            "best_runs": ["a"],
            **changed.get("confirmation", {}),
            "best_parameters": rate,
        },
        goal={"direction": "maximize"},
        reaches_goal=lambda value: value >= 0.85,
        config=SimpleNamespace(search=object()),
        call=lambda tool, why, **arguments: NextCall(tool=tool, arguments=arguments, why=why),
    )
    call = change_to_best(evidence, {"baseline_spread": 0.3, "best": best})
    if changed:
        assert call is None
        return
    assert (call.tool, call.arguments["changes"]) == ("configure", {**rate, "search": None})
    assert "with each of 3 seeds (0.86 at the worst)" in call.why
    assert "section of the search is left out" in call.why


def two_seconds() -> Run:
    """A run that took two seconds from its order to its end."""
    began = now()
    return Run(created_at=began, ended_at=began + timedelta(seconds=2))


@pytest.mark.requirement("PHASE-5")
def test_a_falling_loss_is_an_improvement_when_the_goal_is_to_minimize() -> None:
    assert compare([0.50, 0.51, 0.52], [0.40, 0.42, 0.41], "minimize")["validated"] is True
    assert compare([0.50, 0.51, 0.52], [0.40, 0.42, 0.41], "maximize")["validated"] is False


@pytest.mark.requirement("PHASE-5")
def test_a_shift_that_every_seed_shares_must_exceed_what_the_metric_can_tell() -> None:
    one_of_fifty = compare([0.90, 0.90, 0.90], [0.92, 0.92, 0.92], "maximize", samples=50)
    assert one_of_fifty["improvement_mean"] == pytest.approx(0.02)
    assert one_of_fifty["improvement_low"] < 0.0
    assert one_of_fifty["validated"] is False, "one sample more, three times: the metric has no finer step"
    assert compare([0.90, 0.90, 0.90], [0.94, 0.94, 0.94], "maximize", samples=50)["validated"] is True
    # By hand: half = t(0.975, 2) x step / sqrt(6) / sqrt(3), with the step of one sample in fifty
    assert one_of_fifty["improvement_low"] == pytest.approx(0.02 - 4.302653 * 0.02 / math.sqrt(18), abs=1e-7)
    assert compare([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], "maximize")["validated"] is False


@pytest.mark.requirement("PHASE-5")
def test_last_bits_are_no_improvement() -> None:
    baseline = [0.3, 0.3, 0.3]
    assert compare(baseline, [math.nextafter(value, 0.0) for value in baseline], "minimize")["validated"] is False
    assert compare([1e6, 1e6 + 1, 1e6 + 2], [1e6 - 1e-3, 1e6 + 0.999, 1e6 + 1.999], "minimize")["validated"] is False


@pytest.mark.requirement("PHASE-5")
def test_an_improvement_within_the_spread_of_the_baseline_is_noise() -> None:
    baseline = [0.80, 0.90, 0.85]
    found = compare(baseline, [0.811, 0.9115, 0.8605], "maximize")
    assert found["improvement_low"] > 0.0, "the pairs agree"
    assert found["baseline_spread"] == pytest.approx(0.05)
    assert found["validated"] is False, "but another seed changes more than the search did"
    assert compare(baseline, [0.871, 0.9715, 0.9205], "maximize")["validated"] is True


@pytest.mark.requirement("PHASE-5")
def test_the_step_of_a_metric_is_a_sample_where_it_counts_samples() -> None:
    assert resolution([0.9, 0.92], 50) == 1 / 50
    assert resolution([0.901, 0.92], 50) == pytest.approx(0.92 * 2**-23)  # F1 or a loss
    assert resolution([2.0, 3.0], 50) == pytest.approx(3 * 2**-23)  # a loss that is a whole number by chance
    assert resolution([0.9, 0.92], 0) == pytest.approx(0.92 * 2**-23)


@pytest.mark.requirement("PHASE-5", "GATE-5")
def test_the_seeds_follow_from_the_configuration_and_leave_its_own_out() -> None:
    seeds = confirmation_seeds("blake3:1", 20, own_seed=42)
    assert seeds == confirmation_seeds("blake3:1", 20, own_seed=42)
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert confirmation_seeds("blake3:1", 3, own_seed=42) == seeds[:3]  # asking for more does not draw anew
    assert not set(seeds) & set(confirmation_seeds("blake3:2", 20, own_seed=42))
    assert confirmation_seeds("blake3:1", 3, own_seed=seeds[1]) == [seeds[0], *seeds[2:4]]


@pytest.mark.requirement("PHASE-5", "REPRO-1")
def test_seeds_that_give_the_same_weights_measured_nothing() -> None:
    def evidence(*digests: str | None) -> Any:
        runs = {f"run-{n}": SimpleNamespace(summary=Summary(weights_digest=digest)) for n, digest in enumerate(digests)}
        return SimpleNamespace(run=runs.get)

    names = ["run-0", "run-1", "run-2"]
    (problem,) = _without_effect(evidence("a", "a", "a"), names)
    assert "3 seeds gave the same weights" in problem
    assert "seed_control.md" in problem
    assert _without_effect(evidence("a", "a", "b"), names) == []
    assert _without_effect(evidence(None, None, None), names) == []


@pytest.mark.requirement("PHASE-5", "PHASE-9")
def test_the_checklist_says_how_many_seeds_are_needed() -> None:
    lines = load_checklist(Phase.OPTIMIZATION).checks
    config = SimpleNamespace(seed=42)
    study = SimpleNamespace(base_config_digest="blake3:1")
    evidence: Any = SimpleNamespace(study=study, config=config, lines=lambda _: lines)
    assert least_seeds(lines) == 3
    two = confirmation_seeds("blake3:1", 2, own_seed=42)
    assert _seed_problems(evidence, two) == ["it was confirmed on 2 seeds; at least 3 are needed"]
    assert _seed_problems(evidence, confirmation_seeds("blake3:1", 3, own_seed=42)) == []
    assert "not on the configuration's own" in _seed_problems(evidence, [1, 2, 3])[0]
