"""The linear rival of a table scores what scikit-learn says, and reads categories as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.evidence.rivals.test_boosted_trees import arrays_of, config_of

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.config import parse_config
from trainwright.trainer.evidence.rivals import linear, rivals_evidence

pytestmark = pytest.mark.requirement("GATE-6")


def test_of_classes_it_is_a_logistic_regression_on_standardised_numbers() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    config = config_of("wine", metrics=["accuracy"])
    splits = build_data(config, Path())
    found = rivals_evidence(splits, config)
    assert found is not None
    (x, y), (held_x, held_y) = arrays_of(splits)
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)).fit(x, y)
    by_name = {one.name: one for one in found.rivals}
    assert by_name["linear"].told == "a logistic regression"
    assert by_name["linear"].metrics["accuracy"] == pytest.approx(plain.score(held_x, held_y))


def test_of_a_skewed_positive_target_the_logarithm_is_learned_as_trees_learn_it(tmp_path: Path) -> None:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    draws = np.random.default_rng(0)
    rows = draws.normal(size=(800, 3))
    price = np.exp(0.8 * rows.sum(axis=1) + draws.normal(0, 0.2, 800))
    lines = [",".join(f"{one:.5f}" for one in (*row, cost)) for row, cost in zip(rows, price, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,price", *lines]) + "\n")
    values: dict[str, Any] = {"data": {"use": "csv", "args": {"path": "rows.csv", "target": "price"}}, "loss": "mse"}
    selection = {"metric": "rmsle", "direction": "minimize"}
    config = parse_config({"model": {"use": "mlp"}, "metrics": ["rmsle"], "selection": selection, **values})
    splits = build_data(config, tmp_path)
    found = rivals_evidence(splits, config)
    assert found is not None
    trees, ridge = found.rivals
    assert ridge.told == "a linear regression (ridge, of the target's logarithm)"
    assert "of the target's logarithm)" in trees.told
    (x, y), (held_x, held_y) = arrays_of(splits)
    plain = make_pipeline(StandardScaler(), Ridge())
    logs = TransformedTargetRegressor(plain, func=np.log, inverse_func=np.exp, check_inverse=False)
    wrong, right = (np.log1p(one.fit(x, y).predict(held_x).clip(0)) - np.log1p(held_y) for one in (plain, logs))
    assert ridge.metrics["rmsle"] == pytest.approx(np.sqrt(np.square(right).mean()), rel=1e-4)
    assert ridge.metrics["rmsle"] < 0.5 * np.sqrt(np.square(wrong).mean())


def test_categories_are_read_one_by_one_and_holes_are_marked(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    colour, size = draws.choice(["red", "blue", "green", "grey"], 400), draws.normal(size=400)
    price = np.select([colour == "red", colour == "grey"], [5.0, -3.0], 0.0) + 2.0 * size
    cells = ["" if hole else f"{one:.4f}" for one, hole in zip(size, draws.random(400) < 0.1, strict=True)]
    lines = [f"{one},{two},{three:.4f}" for one, two, three in zip(colour, cells, price, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["colour,size,price", *lines]) + "\n")
    values: dict[str, Any] = {"data": {"use": "csv", "args": {"path": "rows.csv", "target": "price"}}, "loss": "mse"}
    config = parse_config({"model": {"use": "mlp"}, "metrics": ["r2"], **values})
    splits = build_data(config, tmp_path)
    (ridge,) = linear.fit(splits, config)
    held_out = splits.samples["validation"]
    inputs, target = held_out.column(0).numpy(), held_out.column(1).numpy().reshape(-1)
    known = np.isfinite(inputs).all(axis=1)
    outputs = ridge.outputs(held_out).reshape(-1)
    assert np.isfinite(outputs).all()
    errors = np.square(outputs - target)[known].mean()
    assert 1 - errors / target[known].var() > 0.97  # codes as numbers reach about 0.8
