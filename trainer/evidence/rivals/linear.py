"""A linear model on a table, the simplest that reads all columns: logistic regression of classes, ridge of numbers.

scikit-learn's, fed as a person would: numbers standardised with a mark where one is missing, categories one-hot, and
of a skewed positive target the logarithm where that scores better.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.rivals import logarithms
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted, is_one_class, logits_of, targets_of
from trainwright.trainer.evidence.rivals.logarithms import OfLogarithms
from trainwright.trainer.evidence.rivals.tables import category_codes, inputs_of, seed_of

MAX_ITERATIONS = 200
MAX_ROWS = 50_000
"""Of the train split, the first of a shuffle: more change few digits of so few weights."""


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:
    """Return a linear model of a table that trees were fitted on."""
    train = splits.samples["train"]
    inputs, targets = inputs_of(train), targets_of(train)
    chosen = np.random.default_rng(seed_of(config)).permutation(len(inputs))[:MAX_ROWS]
    is_classes = targets.dtype.kind in "iub" or splits.class_names is not None
    columns = targets.reshape(len(targets), -1)[chosen]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of so many iterations some do not converge
        make = partial(_pipeline, splits, inputs, is_classes=is_classes)
        if is_classes:
            each = [make().fit(inputs[chosen], one) for one in columns.T]
        else:
            each = [logarithms.fitted(make, lambda _: make(), inputs[chosen], one, config) for one in columns.T]
    told = "a logistic regression" if is_classes else "a linear regression (ridge)"
    if any(isinstance(one, OfLogarithms) for one in each):
        told = f"a linear regression (ridge, {OfLogarithms.told})"

    def outputs(samples: Any) -> Array:
        rows = inputs_of(samples)
        if not is_classes:
            return np.stack([one.predict(rows) for one in each], axis=1).reshape(len(rows), *targets.shape[1:])
        if is_one_class(targets):
            return logits_of(each[0].predict_proba(rows), each[0].classes_, len(splits.class_names or ()))
        found = [logits_of(one.predict_proba(rows), one.classes_, 2) for one in each]
        return np.stack([one[:, 1] - one[:, 0] for one in found], axis=1).reshape(len(rows), *targets.shape[1:])

    return [Fitted("linear", told, ("accuracy",) if is_classes else ("r2", "mae"), outputs)]


def _pipeline(splits: Splits, inputs: Array, *, is_classes: bool) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    categories = list(category_codes(splits, inputs))
    numbers = [place for place in range(inputs.shape[1]) if place not in categories]
    filled = make_pipeline(SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler())
    read = [("numbers", filled, numbers), ("categories", OneHotEncoder(handle_unknown="ignore"), categories)]
    model = LogisticRegression(max_iter=MAX_ITERATIONS) if is_classes else Ridge()
    return make_pipeline(ColumnTransformer(read), model)
