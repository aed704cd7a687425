"""Small real data sets that come with scikit-learn, so they need no network.

All but diabetes, which the library scales, are read from its files: importing it takes up to two seconds.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
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

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return inputs (samples, ...) of float32, and labels of int64 or numbers of float32, (samples,).

        Raises:
            DataError: scikit-learn is not installed.
        """
        import numpy as np
        import torch

        from trainwright.trainer.data.preprocessing import ToStandardize
        from trainwright.trainer.data.tensors import TensorSamples

        inputs, targets, classes, features = self._read()
        labels = torch.from_numpy(targets.astype(np.int64 if classes else np.float32))
        standardize = features is not None if self.standardize is None else self.standardize
        samples = TensorSamples(torch.from_numpy(inputs.astype(np.float32)), labels)
        return Loaded(samples, classes, features, ToStandardize() if standardize else None)

    @abstractmethod
    def _read(self) -> tuple[Any, Any, list[str] | None, list[str] | None]:
        """Return inputs and targets, the names of classes, and of a table those of its features."""


class Digits(Toy):
    """1,797 images (1, 8, 8) in [0, 1], 10 classes."""

    name: ClassVar[str] = "digits"

    def _read(self) -> tuple[Any, Any, list[str], None]:
        import numpy as np

        table = np.loadtxt(_file("digits.csv.gz"), delimiter=",", dtype=np.float32)
        return (table[:, :-1] / 16.0).reshape(-1, 1, 8, 8), table[:, -1], [str(label) for label in range(10)], None


class _Table(Toy):
    """A table whose first line holds the numbers of rows and columns and the names of the classes."""

    file: ClassVar[str]
    features: ClassVar[list[str]]

    def _read(self) -> tuple[Any, Any, list[str], list[str]]:
        import numpy as np

        with _file(self.file).open(encoding="utf-8") as lines:
            classes = next(lines).strip().split(",")[2:]
            table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
        return table[:, :-1], table[:, -1], classes, self.features


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
    scaled_by_publisher: ClassVar[str] = "scikit-learn gives each column centred, with squares that sum to 1"

    def _read(self) -> tuple[Any, Any, None, list[str]]:
        from sklearn.datasets import load_diabetes

        bunch = load_diabetes()
        return bunch.data, bunch.target, None, [str(feature) for feature in bunch.feature_names]


def _file(name: str) -> Path:
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("scikit-learn is not installed.", remedy="Install scikit-learn, or use another source.")
    return Path(package.origin).parent / "datasets" / "data" / name
