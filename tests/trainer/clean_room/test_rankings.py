"""Metrics by groups against scikit-learn's, and against the definitions over every order of equal scores."""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.trainer.clean_room import metrics, rankings
from trainwright.trainer.clean_room.comparison import Comparison
from trainwright.trainer.clean_room.intervals import Resampling

pytestmark = pytest.mark.requirement("GATE-6")
random = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**31)
close = {"rel": 1e-9, "abs": 1e-12}


def of_groups(name: str, scores: Any, targets: Any, groups: Any) -> float:
    return metrics.compute(name, np.asarray(scores), np.asarray(targets), np.asarray(groups))


def relevance(found: Any) -> dict[str, float]:
    """The metrics of one order of rows, by their definitions."""
    places = [place for place, gain in enumerate(found, start=1) if gain > 0]
    precisions = [count / place for count, place in enumerate(places, start=1)]
    return {
        "group_mrr": 1 / places[0],
        "group_map": sum(precisions) / len(places),
        **{f"group_recall_at_{most}": sum(place <= most for place in places) / len(places) for most in (5, 10)},
    }


def over_all_orders(scores: Any, targets: Any) -> dict[str, float]:
    """Their mean over every order of the rows in which no lower score stands before a higher one."""
    blocks = [[target for score, target in zip(scores, targets, strict=True) if score == one] for one in {*scores}]
    blocks = [block for _, block in sorted(zip({*scores}, blocks, strict=True), reverse=True)]
    orders = [relevance(sum(order, ())) for order in product(*(list(permutations(block)) for block in blocks))]
    return {name: float(np.mean([one[name] for one in orders])) for name in orders[0]}


@random
@given(seed=seeds, groups=st.integers(1, 6), decimals=st.integers(0, 2))
def test_the_gain_of_each_group_is_scikit_learns_and_the_groups_without_a_relevant_row_are_left_out(
    seed: int, groups: int, decimals: int
) -> None:
    from sklearn.metrics import ndcg_score

    draws = np.random.default_rng(seed)
    sizes = draws.integers(2, 14, groups)
    of = draws.permutation(np.repeat(np.arange(groups) * 7, sizes))
    scores, targets = draws.normal(size=len(of)).round(decimals), draws.integers(0, 5, len(of)) * (of > 0)
    targets[:1] = 1
    wanted = {
        f"group_ndcg_at_{most}": float(
            np.mean([ndcg_score([targets[of == one]], [scores[of == one]], k=most) for one in {*of[targets > 0]}])
        )
        for most in (5, 10)
    }
    assert {name: of_groups(name, scores, targets, of) for name in wanted} == pytest.approx(wanted, **close)


@random
@given(seed=seeds, size=st.integers(1, 6), decimals=st.integers(0, 1))
def test_of_equal_scores_each_metric_is_its_mean_over_all_their_orders(seed: int, size: int, decimals: int) -> None:
    draws = np.random.default_rng(seed)
    scores = (0.4 * draws.normal(size=(2, size))).round(decimals) + 0.0
    targets = draws.integers(0, 2, (2, size))
    targets[:, -1] = 1
    each = [over_all_orders(*one) for one in zip(scores.tolist(), targets.tolist(), strict=True)]
    wanted = {name: (each[0][name] + each[1][name]) / 2 for name in each[0]}
    of = np.repeat([4, 2], size)
    found = {name: of_groups(name, scores.reshape(-1), targets.reshape(-1), of) for name in wanted}
    assert found == pytest.approx(wanted, **close)


def test_by_hand() -> None:
    scores, targets, of = [0.9, 0.1, 0.5, 0.2, 0.7], [0, 2, 1, 0, 3], [0, 0, 0, 1, 1]
    assert of_groups("group_mrr", scores, targets, of) == pytest.approx((1 / 2 + 1) / 2)
    assert of_groups("group_map", scores, targets, of) == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    gained, best = 1 / math.log2(3) + 2 / math.log2(4), 2 + 1 / math.log2(3)
    assert of_groups("group_ndcg_at_10", scores, targets, of) == pytest.approx((gained / best + 1) / 2)


def test_answering_all_rows_alike_has_what_chance_gives() -> None:
    draws = np.random.default_rng(0)
    of, targets = np.repeat(np.arange(3000), 10), np.tile([1] + [0] * 9, 3000)
    for name in rankings.OF_GROUPS:
        alike = of_groups(name, np.zeros(len(of)), targets, of)
        assert alike == pytest.approx(of_groups(name, draws.normal(size=len(of)), targets, of), abs=0.02)
        assert alike == of_groups(name, np.zeros(len(of)), targets[::-1], of) == pytest.approx(alike)


def test_what_cannot_be_ordered_is_refused_or_has_no_value() -> None:
    with pytest.raises(ValueError, match="no data.split by group says which group"):
        metrics.compute("group_mrr", np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="one is below 0"):
        of_groups("group_mrr", np.zeros(3), [1, -1, 0], [0, 0, 0])
    with pytest.raises(ValueError, match="one score each"):
        of_groups("group_mrr", np.zeros((3, 4)), [1, 0, 0], [0, 0, 0])
    assert math.isnan(of_groups("group_map", [1.0, math.nan], [1, 0], [0, 0]))
    assert math.isnan(of_groups("group_map", [1.0, 0.5], [0, 0], [0, 0]))
    assert metrics.problem_of("group_map", np.zeros((2, 2)), np.zeros(2)) == (
        "none of 2 rows is relevant: no target is above 0"
    )
    two_classes = np.array([[0.0, 3.0], [1.0, 1.0]])  # the difference of their logits orders
    assert of_groups("group_mrr", two_classes, [1, 0], [0, 0]) == 1.0


def test_an_interval_draws_whole_groups_and_one_drawn_twice_counts_twice() -> None:
    draws = np.random.default_rng(1)
    of = np.repeat(np.arange(40), 5)
    targets, scores = draws.integers(0, 3, 200), draws.normal(size=200)
    order = draws.permutation(200)
    compared = Comparison("", ["group_ndcg_at_5", "group_mrr"], None, groups=of[order])
    for rows in np.array_split(order, 7):  # groups span the batches
        compared.add({"output": scores[rows]}, targets[rows])
    answer: dict[str, Any] = {"metrics": {}, "intervals": {}, "not_computed": {}, "readings": {}}
    compared.report(answer, Resampling(200, groups=of[order]))
    for name in compared.metrics:
        each = np.array([
            of_groups(name, scores[of == one], targets[of == one], of[of == one])
            for one in range(40)
            if targets[of == one].any()
        ])  # fmt: skip
        assert answer["metrics"][name] == pytest.approx(each.mean())
        low, high = answer["intervals"][name]
        spread = each.std() / math.sqrt(len(each))
        assert low < each.mean() < high
        assert high - low == pytest.approx(4 * spread, rel=0.25)


def test_the_process_evaluates_program_baseline_and_rival_by_the_groups_that_planning_fixed(room: Any) -> None:
    """Rows go through the programs in an order drawn by their bytes; a slice of whole groups is of these."""
    draws = np.random.default_rng(2)
    of, targets = draws.permutation(np.repeat(np.arange(9), 10)), draws.integers(0, 4, 90)
    weights = draws.normal(size=(4, 1)).astype(np.float32)
    inputs = np.concatenate([room.inputs[:, :3], (of < 4).astype(np.float32)[:, None]], axis=1)
    guessed = draws.normal(size=(90, 1)).astype(np.float32)
    room.fix(inputs, targets.astype(np.float32)[:, None])
    room.order["rows"]["record"]["splits"]["validation"]["groups"] = room.array("groups", of)
    rival = {"outputs": room.array("guessed", guessed), "targets": None}
    room.order |= {
        "program": room.program(weights), "beside": room.program(-weights, "other.onnx"), "task": "regression",
        "loss": {"name": "mse", "args": {}}, "metrics": ["group_ndcg_at_10"],
        "groups": [{"name": "first", "column": 3}],
        "rivals": [{"name": "guesses", "folder": str(room.folder), "splits": {"validation": rival}}],
    }  # fmt: skip
    found, name = room.validation(), "group_ndcg_at_10"
    scores = (inputs @ weights)[:, 0]
    assert found["metrics"][name] == pytest.approx(of_groups(name, scores, targets, of), rel=1e-6)
    assert found["beside"]["metrics"][name] == pytest.approx(of_groups(name, -scores, targets, of), rel=1e-6)
    assert found["rivals"]["guesses"]["metrics"][name] == pytest.approx(of_groups(name, guessed, targets, of), rel=1e-6)
    low, high = found["rivals"]["guesses"]["paired"]["intervals"][name]
    assert low < found["metrics"][name] - found["rivals"]["guesses"]["metrics"][name] < high
    part = of < 4
    first = of_groups(name, scores[part], targets[part], of[part])
    assert found["slices"]["first=1"]["metrics"][name] == pytest.approx(first, rel=1e-6)
    split = room.order["rows"]["record"]["splits"]["validation"]
    split["chosen"] = room.array("chosen", np.arange(0, 180, 2))
    split["size"] = 180  # a sample of rows parts the groups, and one of whole groups does not
    assert name in room.validation()["not_computed"]
    split["whole_groups"] = True
    room.order["rivals"] = []
    assert room.validation()["metrics"][name] == pytest.approx(found["metrics"][name])


def test_rows_without_groups_have_no_figure_and_the_reason() -> None:
    compared = Comparison("", ["group_mrr", "mae"], None)
    compared.add({"output": np.zeros(4)}, np.array([0.0, 1.0, 0.0, 1.0]))
    answer: dict[str, Any] = {"metrics": {}, "intervals": {}, "not_computed": {}, "readings": {}}
    compared.report(answer, Resampling(4))
    assert answer["metrics"] == {"mae": 0.5}
    assert "no data.split by group" in answer["not_computed"]["group_mrr"]
