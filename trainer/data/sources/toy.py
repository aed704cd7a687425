"""Small real data sets that come with scikit-learn, so they need no network.

All but diabetes, which the library scales, are read from its own files: importing it takes up to two seconds.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded, Source

_CELL = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points",
         "symmetry", "fractal dimension")  # fmt: skip


class Toy(Source):
    """A data set of scikit-learn's."""

    standardize: bool | None = None
    """Left out: tables are, images are not."""


class Digits(Toy):
    """1,797 images (1, 8, 8) in [0, 1], 10 classes."""

    name: ClassVar[str] = "digits"

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return the images. Raises DataError where scikit-learn is not installed."""
        import numpy as np

        table = np.loadtxt(_file("digits.csv.gz"), delimiter=",", dtype=np.float32)
        images = (table[:, :-1] / 16.0).reshape(-1, 1, 8, 8)
        return _loaded(images, table[:, -1], [str(label) for label in range(10)], None, bool(self.standardize))


class _Table(Toy):
    """A table whose first line holds the numbers of rows and columns and the names of the classes."""

    file: ClassVar[str]
    features: ClassVar[list[str]]

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return the rows. Raises DataError where scikit-learn is not installed."""
        import numpy as np

        with _file(self.file).open(encoding="utf-8") as lines:
            classes = next(lines).strip().split(",")[2:]
            table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
        return _loaded(table[:, :-1], table[:, -1], classes, self.features, self.standardize is not False)


class Iris(_Table):
    """150 x 4, 3 classes."""

    name: ClassVar[str] = "iris"
    file: ClassVar[str] = "iris.csv"
    features: ClassVar[list[str]] = [
        "sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)",
    ]  # fmt: skip


class Wine(_Table):
    """178 x 13, 3 classes."""

    name: ClassVar[str] = "wine"
    file: ClassVar[str] = "wine_data.csv"
    features: ClassVar[list[str]] = [
        "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids",
        "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280/od315_of_diluted_wines", "proline",
    ]  # fmt: skip


class BreastCancer(_Table):
    """569 x 30, 2 classes."""

    name: ClassVar[str] = "breast_cancer"
    file: ClassVar[str] = "breast_cancer.csv"
    features: ClassVar[list[str]] = [
        *(f"mean {name}" for name in _CELL), *(f"{name} error" for name in _CELL), *(f"worst {name}" for name in _CELL),
    ]  # fmt: skip


class Diabetes(Toy):
    """442 x 10, a number to predict."""

    name: ClassVar[str] = "diabetes"

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return the rows."""
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes()
        features = [str(feature) for feature in bunch.feature_names]
        return _loaded(bunch.data, bunch.target, None, features, self.standardize is not False)


def _loaded(inputs: Any, targets: Any, classes: list[str] | None, features: list[str] | None, scaled: bool) -> Loaded:
    """Return the samples: inputs of float32, and labels of int64 where there are classes."""
    import numpy as np
    import torch

    from trainwright.trainer.data.tensors import TensorSamples

    numbers, labels = inputs.astype(np.float32), targets.astype(np.int64 if classes else np.float32)
    samples = TensorSamples(torch.from_numpy(numbers), torch.from_numpy(labels))
    return Loaded(samples, classes, features, standardize=scaled)


def _file(name: str) -> Path:
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("scikit-learn is not installed.", remedy="Install scikit-learn, or use another source.")
    return Path(package.origin).parent / "datasets" / "data" / name
