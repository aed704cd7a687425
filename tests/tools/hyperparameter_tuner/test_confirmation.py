"""The verdict over repeated seeds: arithmetic that can be checked by hand."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from trainwright.tools.gates.improvement import compare, confirmation_seeds


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
def test_one_lucky_seed_is_no_improvement() -> None:
    found = compare([0.90, 0.91, 0.90], [0.99, 0.91, 0.90], "maximize")
    assert found["improvement_mean"] > 0.0
    assert found["validated"] is False


@pytest.mark.requirement("PHASE-5")
def test_a_falling_loss_is_an_improvement_when_the_goal_is_to_minimize() -> None:
    assert compare([0.50, 0.51, 0.52], [0.40, 0.42, 0.41], "minimize")["validated"] is True
    assert compare([0.50, 0.51, 0.52], [0.40, 0.42, 0.41], "maximize")["validated"] is False


@pytest.mark.requirement("PHASE-5")
def test_equal_differences_have_an_interval_of_no_width() -> None:
    better = compare([0.5, 0.5, 0.5], [0.75, 0.75, 0.75], "maximize")
    assert better["improvement_low"] == better["improvement_high"] == 0.25
    assert better["validated"] is True
    assert compare([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], "maximize")["validated"] is False


@pytest.mark.requirement("PHASE-5", "GATE-5")
def test_the_seeds_follow_from_the_configuration_and_leave_its_own_out() -> None:
    seeds = confirmation_seeds("blake3:1", 20, own_seed=42)
    assert seeds == confirmation_seeds("blake3:1", 20, own_seed=42)
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert confirmation_seeds("blake3:1", 3, own_seed=42) == seeds[:3]  # asking for more does not draw anew
    assert not set(seeds) & set(confirmation_seeds("blake3:2", 20, own_seed=42))
    assert confirmation_seeds("blake3:1", 3, own_seed=seeds[1]) == [seeds[0], *seeds[2:4]]
