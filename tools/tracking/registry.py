"""Trackers by the key of `logging` that switches each on: also the name of its library, and of our extra with it."""

from __future__ import annotations

from typing import NamedTuple

from trainwright.tools.tracking.mlflow_tracker import MLflow
from trainwright.tools.tracking.tracker import Tracker
from trainwright.tools.tracking.wandb_tracker import WeightsAndBiases


class Known(NamedTuple):
    """One tracker."""

    make: type[Tracker]
    variables: tuple[str, ...]
    """Of the server's environment, that its process gets: addresses and credentials, which are written nowhere."""


TRACKERS: dict[str, Known] = {
    "mlflow": Known(
        MLflow,
        ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
    ),
    "wandb": Known(WeightsAndBiases, ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY")),
}  # fmt: skip
