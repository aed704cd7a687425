"""Preprocessing of a source: fitted on the train split alone, applied to every batch, part of the exported program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from trainwright.trainer.data.tensors import TensorSamples


class Preprocessing(nn.Module, ABC):
    """Map of inputs as the source has them to inputs as the model takes them, row by row. It learns nothing."""

    kind: ClassVar[str]
    """Name in records."""

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Map raw inputs (rows, ...) to prepared ones (rows, ...) of float32."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return, as JSON, all that was fitted: it goes into the data's fingerprint, and restores this."""

    @classmethod
    @abstractmethod
    def restored(cls, record: Mapping[str, Any]) -> Preprocessing:
        """Return the preprocessing of a record."""

    @property
    def feature_groups(self) -> list[int] | None:
        """How many neighbouring columns of the prepared rows belong to each feature; None: a column each."""
        return None


class Unfitted(ABC):
    """What a source wants fitted on the train split."""

    takes_missing: bool = False
    """Whether NaN in raw inputs stands for a missing value, rather than being an error."""

    @abstractmethod
    def fit(self, train: TensorSamples) -> Preprocessing:
        """Return the preprocessing that fits the train split's raw rows."""
