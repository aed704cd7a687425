"""Gradient-boosted trees beside a baseline: the same rows, the same metrics, and nothing where data are no table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.tools.gates.beside_trees import trees_text
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence import boosted_trees
from trainwright.trainer.evidence.boosted_trees import boosted_trees_evidence
from trainwright.trainer.run.looked_at import BoostedTrees

pytestmark = pytest.mark.requirement("PHASE-3", "PIPE-3")


def splits_of(name: str) -> Splits:
    section = SplitSection()
    loaded = load_source(name, {}, Path(), section)
    assert isinstance(loaded, Loaded)
    return from_loaded(loaded, section, source=name)


def config_of(name: str, **values: Any) -> Any:
    return parse_config({"model": {"use": "mlp"}, "data": {"use": name}, **values})


def test_trees_score_what_scikit_learn_says_on_the_validation_rows() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import f1_score

    splits = splits_of("wine")
    config = config_of("wine", metrics=["f1"], selection={"metric": "accuracy", "direction": "maximize"})
    found, again = (boosted_trees_evidence(splits, config) for _ in range(2))
    assert found is not None
    assert again is not None
    assert found.metrics == again.metrics
    (x, y), (held_x, held_y) = ((one.column(0).numpy(), one.column(1).numpy()) for one in
                                (splits.samples["train"], splits.samples["validation"]))  # fmt: skip
    reference = HistGradientBoostingClassifier(random_state=42, early_stopping=False).fit(x, y)
    assert found.metrics["accuracy"] == pytest.approx(reference.score(held_x, held_y))
    assert found.metrics["f1"] == pytest.approx(f1_score(held_y, reference.predict(held_x), average="macro"))
    assert (found.rows, found.validation_rows, found.columns, found.iterations) == (len(x), len(held_x), 13, 100)


def test_numbers_with_holes_are_predicted_and_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted_trees, "MOST_SECONDS", 0.0)
    inputs = torch.randn(300, 3)
    targets = inputs[:, 0] * 2
    inputs[::7, 1] = np.nan
    parts = {
        "train": TensorSamples(inputs[:200], targets[:200]),
        "validation": TensorSamples(inputs[200:], targets[200:]),
    }
    found = boosted_trees_evidence(Splits(parts, {}, "csv"), config_of("diabetes", loss="mse"))
    assert found is not None
    assert found.iterations == 10
    assert found.metrics["r2"] > 0.5


def test_what_is_no_table_or_too_large_is_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert boosted_trees_evidence(splits_of("digits"), config_of("digits")) is None
    monkeypatch.setattr(boosted_trees, "MOST_ROWS", 50)
    found = boosted_trees_evidence(splits_of("wine"), config_of("wine"))
    assert found is not None
    assert "more than 50 rows" in str(found.not_fitted)
    monkeypatch.setattr(boosted_trees, "MOST_ROWS", 500)
    monkeypatch.setattr(boosted_trees, "MOST_CLASSES", 2)
    found = boosted_trees_evidence(splits_of("wine"), config_of("wine"))
    assert found is not None
    assert found.not_fitted == "more than 2 classes"


@pytest.mark.slow
def test_a_baseline_says_plainly_what_trees_score(tmp_path: Path, make_run: Any, work: Any) -> None:
    values = {"model": {"use": "mlp"}, "data": {"use": "wine"}, "metrics": ["accuracy"], "training": {"epochs": 1}}
    run = make_run(tmp_path / "run", values, kind="baseline")
    assert work(run) == 0, run.log.read_text()
    assert run.part(BoostedTrees).metrics["accuracy"] > 0.8
    text = trees_text(run, "accuracy", 0.5)
    assert text is not None
    assert text.startswith("A gradient-boosted tree ensemble scores accuracy ")
    assert ", the model 0.5, on the same 27 validation rows" in text
    assert text.endswith("the model's epoch was chosen by these).")


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_several_targets_have_trees_each_and_the_metric_is_their_mean(kind: str, tmp_path: Path) -> None:
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
    found = boosted_trees_evidence(splits, config_of("wine", metrics=[metric]))
    assert found is not None, "of a table"
    (x, y), (held_x, held_y) = ((one.column(0).numpy(), one.column(1).numpy()) for one in
                                (splits.samples["train"], splits.samples["validation"]))  # fmt: skip
    score = r2_score if kind == "numbers" else f1_score
    each = [
        score(held_y[:, n], make(random_state=42, early_stopping=False).fit(x, y[:, n]).predict(held_x)) for n in (0, 1)
    ]
    assert found.metrics[metric] == pytest.approx(np.mean(each))
