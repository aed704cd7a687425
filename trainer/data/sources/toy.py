"""Small real data sets that come with scikit-learn, so they need no network.

All but diabetes, which the library scales, are read from its own files: importing it takes up to two seconds.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import torch

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.splits import Loaded
from trainwright.trainer.data.tensors import TensorSamples

NAMES = ("digits", "iris", "wine", "breast_cancer", "diabetes")
_CELL = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
         "symmetry", "fractal dimension")  # fmt: skip
TABLES = {
    "iris": ("iris.csv", ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]),
    "wine": ("wine_data.csv", ["alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols",
                               "flavanoids", "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue",
                               "od280/od315_of_diluted_wines", "proline"]),
    "breast_cancer": ("breast_cancer.csv", [*(f"mean {name}" for name in _CELL), *(f"{name} error" for name in _CELL),
                                            *(f"worst {name}" for name in _CELL)]),
}  # fmt: skip
"""File and columns of each table; its first line holds the numbers of rows and columns and the names of the classes."""


def load_toy(name: str, *, standardize: bool | None = None) -> Loaded:
    """Load one of NAMES.

    digits: 1,797 images (1, 8, 8) in [0, 1], 10 classes; iris 150 x 4, 3 classes; wine 178 x 13, 3 classes;
    breast_cancer 569 x 30, 2 classes; diabetes 442 x 10, a number to predict. Tables are standardised by default.

    Raises:
        DataError: scikit-learn is not installed.
    """
    if name == "digits":
        return _digits(standardize=bool(standardize))
    standardize = True if standardize is None else standardize
    return _diabetes(standardize=standardize) if name == "diabetes" else _table(name, standardize=standardize)


def _digits(*, standardize: bool) -> Loaded:
    table = np.loadtxt(_file("digits.csv.gz"), delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :-1] / 16.0).reshape(-1, 1, 8, 8)
    samples = TensorSamples(images, torch.from_numpy(table[:, -1].astype(np.int64)))
    return Loaded(samples, class_names=[str(label) for label in range(10)], standardize=standardize)


def _table(name: str, *, standardize: bool) -> Loaded:
    file, features = TABLES[name]
    with _file(file).open(encoding="utf-8") as lines:
        classes = next(lines).strip().split(",")[2:]
        table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    return Loaded(
        TensorSamples(
            torch.from_numpy(table[:, :-1].astype(np.float32)), torch.from_numpy(table[:, -1].astype(np.int64))
        ),
        class_names=classes,
        feature_names=features,
        standardize=standardize,
    )


def _diabetes(*, standardize: bool) -> Loaded:
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    return Loaded(
        TensorSamples(
            torch.from_numpy(bunch.data.astype(np.float32)), torch.from_numpy(bunch.target.astype(np.float32))
        ),
        feature_names=[str(feature) for feature in bunch.feature_names],
        standardize=standardize,
    )


def _file(name: str) -> Path:
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("scikit-learn is not installed.", remedy="Install scikit-learn, or use another source.")
    return Path(package.origin).parent / "datasets" / "data" / name
