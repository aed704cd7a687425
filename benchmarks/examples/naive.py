"""Naive figures of the examples' cards, and simple rivals beside them, on the very rows that a project holds back.

    python benchmarks/examples/naive.py churn lora

Data and split are made as a run makes them. A naive figure needs no training or hardly any; a rival is what one would
try before a network. Prints one line each.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.tools.examples import Example, copy_example, example_named
from trainwright.tools.examples.catalogue import config_of
from trainwright.tools.projects import settled_values
from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.config import parse_config

Array = np.ndarray[Any, Any]
Rows = dict[str, tuple[Array, Array]]
"""Inputs and targets by split."""


def churn(rows: Rows) -> dict[str, float]:
    """AUC of one score for all, of the support calls alone, of boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    (x, y), (held, truth) = rows["train"], rows["test"]
    trees = HistGradientBoostingClassifier(random_state=0, max_depth=3, learning_rate=0.05).fit(x, y)
    alone = max(roc_auc_score(truth, column) for column in np.nan_to_num(held).T)
    return {
        "everybody gets the same score": roc_auc_score(truth, np.zeros(len(truth))),
        "the best single column, chosen on the held-back rows": alone,
        "boosted trees": roc_auc_score(truth, trees.predict_proba(held)[:, 1]),
    }


def images(rows: Rows) -> dict[str, float]:
    """Accuracy of the nearest class mean and of logistic regression on pixels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestCentroid

    (x, y), (held, truth) = rows["train"], rows["test"]
    x, held = (part.reshape(len(part), -1) / x.max() for part in (x, held))
    return {
        "the nearest class mean of the train pictures": NearestCentroid().fit(x, y).score(held, truth),
        "logistic regression on pixels": LogisticRegression(max_iter=200, C=0.05).fit(x, y).score(held, truth),
    }


def timeseries(rows: Rows) -> dict[str, float]:
    """Mean absolute error of last week's same day, of yesterday, of ridge regression."""
    from sklearn.linear_model import RidgeCV

    (x, y), (held, truth) = rows["train"], rows["test"]
    ridge = RidgeCV(np.logspace(-4, 2, 13)).fit(x, y)
    return {
        "seasonal-naive: the same hour a week before": float(np.abs(held[:, :24] - truth).mean()),
        "the same hour yesterday": float(np.abs(held[:, 144:168] - truth).mean()),
        "ridge regression": float(np.abs(ridge.predict(held) - truth).mean()),
    }


def lora(rows: Rows) -> dict[str, float]:
    """Accuracy of the most frequent class and of logistic regression on counted word pieces."""
    from sklearn.linear_model import LogisticRegression

    (x, y), (held, truth) = rows["train"], rows["test"]
    counted = LogisticRegression(max_iter=500).fit(_counts(x), y)
    return {
        "the most frequent class": float((truth == np.bincount(y).argmax()).mean()),
        "logistic regression on counted words": counted.score(_counts(held), truth),
    }


FIGURES: dict[str, Callable[[Rows], dict[str, float]]] = {
    "churn": churn,
    "images": images,
    "timeseries": timeseries,
    "lora": lora,
}


def _counts(texts: Array, vocabulary: int = 30522) -> Array:
    """Return how often each word piece stands in each text, (texts, pieces); padding and marks are left out."""
    counts = np.zeros((len(texts), vocabulary), dtype=np.float32)
    for row, pieces in enumerate(texts):
        np.add.at(counts[row], [piece for piece in pieces if piece > 999], 1)
    return counts


def rows_of(example: Example) -> Rows:
    """Return an example's rows as its project divides them: prepared, loaded and split in a fresh copy."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / example.name
        copy_example(example, folder)
        subprocess.run([sys.executable, "prepare.py"], cwd=folder, check=True)
        values = config_of(folder)
        values["data"].get("args", {}).pop("augment", None)  # a rule sees the pictures as they are
        config = parse_config(settled_values(values, example.goal.model_dump()))
        samples = build_data(config, folder).samples
        return {part: _stacked([samples[part][row] for row in range(len(samples[part]))]) for part in samples}


def _stacked(samples: list[Any]) -> tuple[Array, Array]:
    """Return inputs and targets of samples: pairs, or mappings of a text's pieces."""
    if isinstance(samples[0], dict):
        texts = np.empty(len(samples), dtype=object)
        texts[:] = [np.asarray(sample["input_ids"]).tolist() for sample in samples]
        return texts, np.array([int(sample["labels"]) for sample in samples])
    inputs, targets = ([np.asarray(sample[place]) for sample in samples] for place in (0, 1))
    return np.stack(inputs), np.stack(targets)


def main() -> None:
    """Print the figures of the examples that are named, or of all."""
    for name in sys.argv[1:] or FIGURES:
        rows = rows_of(example_named(name))
        sizes = ", ".join(f"{part} {len(targets)}" for part, (_, targets) in rows.items())
        for what, value in FIGURES[name](rows).items():
            print(f"{name}: {value:.4f} {what} ({sizes})", flush=True)


if __name__ == "__main__":
    main()
