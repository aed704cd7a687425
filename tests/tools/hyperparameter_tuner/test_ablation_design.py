"""Designs of ablation studies and their estimates: pure functions, held to tables, identities and simulations."""

from __future__ import annotations

import random
import statistics
from typing import Any

import pytest
from scipy import stats

from trainwright.tools.gates.ablated import beside_best, told_beside_best
from trainwright.tools.hyperparameter_tuner.ablation.design import combination_name, design_of
from trainwright.tools.hyperparameter_tuner.ablation.results import estimate, holm
from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSection


def section(design: str, *keys: str, **more: Any) -> AblationSection:
    return AblationSection(factors={key: [0] for key in keys}, design=design, **more)


@pytest.mark.requirement("TUNE-5")
def test_a_factorial_finds_the_effects_of_a_made_up_response_exactly() -> None:
    design = design_of(section("factorial", "a", "b", "c"))
    response = [
        1 + 2 * ("a" in arm.changes) - 1 * ("b" in arm.changes) + 4 * ({"a", "b"} <= set(arm.changes))
        for arm in design.arms
    ]
    found = {one.name.split(" ")[0]: sum(w * y for w, y in zip(one.weights, response, strict=True))
             for one in design.contrasts}  # fmt: skip
    assert found == {"A": 4.0, "B": 1.0, "C": 0.0, "A:B": 2.0, "A:C": 0.0, "B:C": 0.0}


@pytest.mark.requirement("TUNE-5")
def test_one_at_a_time_compares_every_level_with_the_reference_alone() -> None:
    design = design_of(AblationSection(factors={"a": [1, 2], "b": [None]}))
    assert [arm.changes for arm in design.arms] == [{}, {"a": 1}, {"a": 2}, {"b": None}]
    assert [one.weights for one in design.contrasts] == [(-1, 1, 0, 0), (-1, 0, 1, 0), (-1, 0, 0, 1)]


@pytest.mark.requirement("TUNE-5")
def test_combinations_stand_beside_the_levels() -> None:
    design = design_of(AblationSection(factors={"a": [1]}, combinations=[{"a": 1, "b": 2}]))
    assert [(arm.name, arm.changes) for arm in design.arms][1:] == [
        ("a = 1", {"a": 1}),
        ("a = 1, b = 2", {"a": 1, "b": 2}),
    ]
    assert [one.weights for one in design.contrasts] == [(-1, 1, 0), (-1, 0, 1)]


def results_of_arms(*arms: tuple[dict[str, Any], list[float]], direction: str = "maximize") -> dict[str, Any]:
    made = [{"name": combination_name(changes) or "reference", "changes": changes, "values": values,
             "mean": statistics.fmean(values)} for changes, values in arms]  # fmt: skip
    return {"direction": direction, "arms": made, "seeds": [*range(len(made[0]["values"]))]}


@pytest.mark.requirement("TUNE-5")
def test_of_configurations_that_the_noise_does_not_tell_apart_the_one_of_fewest_changes_is_named() -> None:
    reference, norm = ({}, [0.88, 0.87, 0.89, 0.88]), ({"norm": True}, [0.978, 0.98, 0.979, 0.977])
    both = {"shift": 2, "norm": True}, [0.98, 0.979, 0.98, 0.978]
    told = told_beside_best(results_of_arms(reference, norm, both), 0)
    assert told == (
        "shift = 2, norm = true has the best mean (0.9792); behind it within the seeds' noise: norm = true (by "
        "0.00075). norm = true is as good with fewer changes. Better than reference on each of 4 seeds: norm = true, "
        "shift = 2, norm = true."
    )
    apart = both[0], [value + 0.01 for value in norm[1]]
    told = told_beside_best(results_of_arms(reference, norm, apart), 0)
    assert "; every other is behind it beyond the seeds' noise, or on every seed." in told
    flipped = [({**changes}, [1 - value for value in values]) for changes, values in (reference, norm, both)]
    best, ((equal, behind),) = beside_best(results_of_arms(*flipped, direction="minimize"), 0)
    assert (best["changes"], equal["changes"], behind) == (both[0], norm[0], pytest.approx(0.00075))
    told = told_beside_best(results_of_arms(reference, norm), 0)
    assert told == "Better than reference on each of 4 seeds: norm = true.", "the effect says the rest"


@pytest.mark.requirement("TUNE-5")
def test_what_is_many_times_worse_on_every_seed_is_said_to_be_where_so_few_settle_nothing() -> None:
    arms = ({}, [586.3, 501.0, 510.0]), ({"tied": 1}, [519.3, 477.4, 514.6]), ({"norm": 1}, [2620.0, 10124.0, 2575.0])
    told = told_beside_best(results_of_arms(*arms, direction="minimize"), 0)
    assert told == (
        "tied = 1 has the best mean (503.8); behind it within the seeds' noise: reference (by 28.7). reference is as "
        "good with fewer changes. Worse than reference on each of 3 seeds: norm = 1 (4.5 times at least)."
    )


@pytest.mark.requirement("TUNE-5")
def test_an_estimate_is_scipys_paired_t_test_and_its_interval() -> None:
    reference, level = [0.90123, 0.91517, 0.89871, 0.90733], [0.88211, 0.90907, 0.87013, 0.89199]
    design = design_of(section("one_at_a_time", "a"))
    (found,) = estimate(design.contrasts, [reference, level])
    expected = stats.ttest_rel(level, reference)
    interval = expected.confidence_interval(0.95)
    assert found["p"] == pytest.approx(expected.pvalue)
    assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high))
    assert (found["low_all"], found["high_all"]) == (found["low"], found["high"]), "one comparison needs no correction"


@pytest.mark.requirement("TUNE-5")
def test_holm_corrects_step_by_step() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@pytest.mark.requirement("TUNE-5")
def test_values_that_agree_are_no_proof_that_there_is_no_noise() -> None:
    design = design_of(section("one_at_a_time", "a"))
    (found,) = estimate(design.contrasts, [[0.9] * 3, [0.91] * 3], samples=100)
    assert not found["differs"], "one of 100 samples may be a matter of rounding"
    assert found["low"] < 0 < found["high"]


@pytest.mark.requirement("TUNE-5")
def test_of_studies_of_pure_noise_one_in_twenty_at_most_finds_anything_and_a_true_effect_is_found_as_promised() -> None:
    draw, trials, seeds = random.Random(1), 100, 5
    design = design_of(AblationSection(factors={"a": [1, 2, 3], "b": [1, 2]}))
    false = seen = 0
    smallest = []
    for _ in range(trials):
        base = [draw.gauss(0, 3) for _ in range(seeds)]  # what a seed does to every arm cancels
        values = [[value + draw.gauss(0, 1) for value in base] for _ in design.arms]
        found = estimate(design.contrasts, values)
        false += any(one["differs"] for one in found)
        smallest.append(found[0]["smallest_seen"])
    effect = statistics.fmean(each**2 for each in smallest) ** 0.5
    for _ in range(trials):
        values = [[draw.gauss(0, 1) for _ in range(seeds)] for _ in design.arms]
        values[1] = [value + effect for value in values[1]]
        seen += estimate(design.contrasts, values)[0]["differs"]
    assert false / trials <= 0.08, "at most 5 %, and what 100 draws add to it"
    assert 0.73 <= seen / trials <= 0.88
