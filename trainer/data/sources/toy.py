"""Small real data sets that come with scikit-learn, so they need no network."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import torch

from trainwright.trainer.data.sources.loaded import Loaded
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.errors import DataError

NAMES = ("digits", "iris", "wine", "breast_cancer", "diabetes")


def load_toy(name: str, *, standardize: bool | None = None) -> Loaded:
    """Load one of NAMES.

    digits: 1,797 images (1, 8, 8) in [0, 1], 10 classes; iris 150 x 4, 3 classes; wine 178 x 13, 3 classes;
    breast_cancer 569 x 30, 2 classes; diabetes 442 x 10, a number to predict. Tables are standardised by default.
    """
    if name == "digits":
        return _digits(standardize=bool(standardize))
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    regression = name == "diabetes"
    targets = bunch.target.astype(np.float32 if regression else np.int64)
    return Loaded(
        TensorSamples(torch.from_numpy(bunch.data.astype(np.float32)), torch.from_numpy(targets)),
        class_names=None if regression else [str(label) for label in bunch.target_names],
        feature_names=[str(feature) for feature in bunch.feature_names],
        standardize=True if standardize is None else standardize,
    )


def _digits(*, standardize: bool) -> Loaded:
    """Read the images from the library's own file: importing the library itself takes two seconds."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("scikit-learn is not installed.", remedy="Install scikit-learn, or use another source.")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :-1] / 16.0).reshape(-1, 1, 8, 8)
    samples = TensorSamples(images, torch.from_numpy(table[:, -1].astype(np.int64)))
    return Loaded(samples, class_names=[str(label) for label in range(10)], standardize=standardize)
