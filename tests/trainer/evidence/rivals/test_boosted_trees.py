"""Gradient-boosted trees as a rival: the same rows, the same metrics, fed as a person would feed them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.tools.gates.beside_rivals import validation_text
from trainwright.trainer.clean_room import metrics
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals import boosted_trees, logarithms, rivals_evidence
from trainwright.trainer.run.rivals import Rival, Rivals

pytestmark = pytest.mark.requirement("PHASE-3", "PIPE-3")


def splits_of(name: str) -> Splits:
    section = SplitSection()
    loaded = load_source(name, {}, Path(), section)
    assert isinstance(loaded, Loaded)
    return from_loaded(loaded, section, source=name)


def config_of(name: str, **values: Any) -> Any:
    return parse_config({"model": {"use": "mlp"}, "data": {"use": name}, **values})


def trees_of(splits: Splits, config: Any) -> Rival:
    found = rivals_evidence(splits, config)
    assert found is not None
    assert found.not_fitted is None
    trees, linear = found.rivals
    assert (trees.name, linear.name) == ("boosted_trees", "linear")
    return trees


def size_of(found: Rival) -> dict[str, int]:
    """Return the iterations and leaves that a rival says it has."""
    (size,) = re.findall(r"(\d+) iterations of (\d+) leaves", found.told)
    return dict(zip(("max_iter", "max_leaf_nodes"), map(int, size), strict=True))


def arrays_of(splits: Splits) -> list[tuple[Any, Any]]:
    parts = (splits.samples["train"], splits.samples["validation"])
    return [(one.column(0).numpy(), one.column(1).numpy()) for one in parts]


def test_trees_score_what_scikit_learn_says_on_the_validation_rows() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import f1_score

    splits = splits_of("wine")
    config = config_of("wine", metrics=["f1"], selection={"metric": "accuracy", "direction": "maximize"})
    found, again = (trees_of(splits, config) for _ in range(2))
    assert found.metrics == again.metrics
    (x, y), (held_x, held_y) = arrays_of(splits)
    reference = HistGradientBoostingClassifier(random_state=42, early_stopping=False, **size_of(found)).fit(x, y)
    assert found.metrics["accuracy"] == pytest.approx(reference.score(held_x, held_y))
    assert found.metrics["f1"] == pytest.approx(f1_score(held_y, reference.predict(held_x), average="macro"))
    assert found.told.startswith("gradient-boosted trees (scikit-learn's, not tuned: 100 iterations of ")


@pytest.mark.long
def test_as_many_iterations_and_leaves_as_suit_the_train_rows_nearly_reach_a_tuned_model() -> None:
    from sklearn.datasets import make_friedman1
    from sklearn.ensemble import HistGradientBoostingRegressor

    x, y = make_friedman1(1800, noise=0.5, random_state=0)
    samples = TensorSamples(*(torch.from_numpy(one.astype(np.float32)) for one in (x, y)))
    train, held = samples.subset(range(900)), samples.subset(range(900, 1800))
    config = config_of("diabetes", loss="mse", metrics=["mse"], selection={"metric": "mse", "direction": "minimize"})
    found = trees_of(Splits({"train": train, "validation": held}, {}, "csv"), config)
    others = TensorSamples(held.column(0).flip(0), held.column(1))
    again = trees_of(Splits({"train": train, "validation": others}, {}, "csv"), config)
    assert again.told == found.told, "rows that are held out choose nothing"
    assert found.told.endswith(" iterations of 8 leaves, stopped early)")
    usual, tuned = (
        HistGradientBoostingRegressor(random_state=0, early_stopping=False, **size).fit(x[:900], y[:900])
        for size in ({}, {"max_iter": 600, "max_leaf_nodes": 6, "learning_rate": 0.04, "min_samples_leaf": 10})
    )
    of_usual, of_tuned = (np.square(one.predict(x[900:]) - y[900:]).mean() for one in (usual, tuned))
    assert found.metrics["mse"] < 0.85 * of_usual
    assert found.metrics["mse"] < 1.1 * of_tuned


def test_numbers_with_holes_are_predicted_and_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "WORK", 10 * (200 * 3 + boosted_trees.NUMBERS_OF_A_TREE))
    inputs = torch.randn(300, 3)
    targets = inputs[:, 0] * 2
    inputs[::7, 1] = np.nan
    parts = {
        "train": TensorSamples(inputs[:200], targets[:200]),
        "validation": TensorSamples(inputs[200:], targets[200:]),
    }
    found = trees_of(Splits(parts, {}, "csv"), config_of("diabetes", loss="mse"))
    assert "(scikit-learn's, not tuned: 10 iterations of 31 leaves)" in found.told
    assert found.metrics["r2"] > 0.5


def table_of(folder: Path, lines: list[str], target: str) -> Splits:
    (folder / "t.csv").write_text("\n".join(lines))
    section = SplitSection()
    return from_loaded(load_source("csv", {"path": "t.csv", "target": target}, folder, section), section, source="csv")


@pytest.mark.parametrize("places", [200, 300])
def test_declared_categories_beat_their_codes_up_to_255_of_them(places: int, tmp_path: Path) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    draw = np.random.default_rng(0)
    worth, shop = draw.normal(size=places), np.tile(np.arange(places), 25)
    lines = [
        "shop,day,sold",
        *(f"shop_{one},{day % 7},{worth[one] + draw.normal(0, 0.1)}" for day, one in enumerate(shop)),
    ]
    splits = table_of(tmp_path, lines, "sold")
    found = trees_of(splits, config_of("diabetes", loss="mse"))
    (x, y), (held_x, held_y) = arrays_of(splits)
    plain = HistGradientBoostingRegressor(random_state=42, early_stopping=False, **size_of(found))
    codes = plain.fit(x, y).score(held_x, held_y)
    if places > 255:
        assert found.metrics["r2"] == pytest.approx(codes, abs=1e-6)
        assert "categories" not in found.told
    else:
        assert found.metrics["r2"] > codes + 0.05
        assert "1 column of categories declared" in found.told


@pytest.mark.parametrize("metric", ["mae", "rmse"])
def test_the_logarithm_of_a_skewed_positive_target_wins_where_it_scores_better(metric: str) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    draw = np.random.default_rng(0)
    x = draw.normal(size=(1500, 3)).astype(np.float32)
    y = np.exp(0.5 * x.sum(1) + draw.normal(0, 0.3, 1500)).astype(np.float32)
    samples = TensorSamples(*map(torch.from_numpy, (x, y)))
    parts = {"train": samples.subset(range(1000)), "validation": samples.subset(range(1000, 1500))}
    config = config_of("diabetes", loss="mse", metrics=["r2"], selection={"metric": metric, "direction": "minimize"})
    found = trees_of(Splits(parts, {}, "csv"), config)
    plain = HistGradientBoostingRegressor(random_state=42, early_stopping=False).fit(x[:1000], y[:1000])
    assert "of the target's logarithm" in found.told
    assert found.metrics[metric] < metrics.compute(metric, plain.predict(x[1000:]), y[1000:])
    assert [logarithms.is_skewed(one) for one in (y, y - y.mean(), np.full(9, 2.0), np.log(y) + 10)] == [
        True,
        *[False] * 3,
    ]


def test_a_goal_in_a_quantile_is_what_they_learn() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(1500, 2)).astype(np.float32)
    y = (x[:, 0] + draw.normal(0, 1.0, 1500)).astype(np.float32)
    samples = TensorSamples(*map(torch.from_numpy, (x, y)))
    parts = {"train": samples.subset(range(1000)), "validation": samples.subset(range(1000, 1500))}
    loss = {"use": "quantile", "args": {"quantile": 0.9}}
    selection = {"metric": "pinball_90", "direction": "minimize"}
    config = config_of("diabetes", loss=loss, metrics=["coverage_error_90"], selection=selection)
    found = trees_of(Splits(parts, {}, "csv"), config)
    mean = trees_of(Splits(parts, {}, "csv"), config_of("diabetes", loss="mse", metrics=["mae", "coverage_error_90"]))
    assert found.metrics["coverage_error_90"] < 0.1
    assert mean.metrics["coverage_error_90"] > 0.3


def test_what_is_too_large_is_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, value, why in (
        ("MAX_ROWS", 50, "more than 50 rows, or 20000000 numbers"),
        ("MAX_CLASSES", 2, "more than 2 classes"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(boosted_trees, bound, value)
            found = rivals_evidence(splits_of("wine"), config_of("wine"))
        assert found is not None
        assert (found.not_fitted, found.rivals) == (why, [])


@pytest.mark.slow
def test_a_baseline_says_plainly_what_trees_score(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {"model": {"use": "mlp"}, "data": {"use": "wine"}, "metrics": ["accuracy"], "training": {"epochs": 1}}
    run = make_run(tmp_path / "run", values, kind="baseline")
    assert work(run) == 0, run.log.read_text()
    trees, linear = run.part(Rivals).rivals
    assert trees.metrics["accuracy"] > 0.8
    best = max((trees, linear), key=lambda one: one.metrics["accuracy"])
    assert validation_text(run, "accuracy", 0.5) == (
        "accuracy on the same 27 validation rows: the model 0.5, whose epoch was chosen by them; "
        f"{best.told} {best.metrics['accuracy']:.4g}."
    )
    assert trees.told.startswith("gradient-boosted trees (scikit-learn's, not tuned: 100 iterations of ")


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_several_targets_have_trees_each_and_the_metric_is_their_mean(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.metrics import f1_score, r2_score

    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 3))
    y = np.stack([x[:, 0] + x[:, 1], 5 * x[:, 2]], axis=1) + draw.normal(0, 0.3, (300, 2))
    y = y if kind == "numbers" else (y > 0).astype(int)
    lines = [",".join(map(str, row)) for row in np.hstack([x, y]).tolist()]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,p,q", *lines]))
    args, section = {"path": "t.csv", "target": ["p", "q"]}, SplitSection()
    splits = from_loaded(load_source("csv", args, tmp_path, section), section, source="csv")
    metric, make = (
        ("r2", HistGradientBoostingRegressor) if kind == "numbers" else ("f1", HistGradientBoostingClassifier)
    )
    monkeypatch.setattr(boosted_trees, "WORK", 2 * 150 * boosted_trees.NUMBERS_OF_A_TREE)
    found = trees_of(splits, config_of("wine", metrics=[metric]))
    assert "not tuned: 100 iterations of 31 leaves)" in found.told, "as the work allows for both"
    (x, y), (held_x, held_y) = arrays_of(splits)
    score = r2_score if kind == "numbers" else f1_score
    each = [
        score(held_y[:, n], make(random_state=42, early_stopping=False).fit(x, y[:, n]).predict(held_x)) for n in (0, 1)
    ]
    assert found.metrics[metric] == pytest.approx(np.mean(each))
