"""What features are worth: a linear classifier on them, the network frozen."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainwright.trainer.data.tensors import IGNORED, to_device
from trainwright.trainer.objectives.batches import input_of
from trainwright.trainer.objectives.contrastive import Encoder, only_input
from trainwright.trainer.objectives.own import MeasuredRun
from trainwright.trainer.objectives.supervised import split_batch
from trainwright.trainer.reproducibility import seeding

if TYPE_CHECKING:
    from trainwright.trainer.data.loader import BatchLoader


class LinearProbe:
    """Accuracy on a split of a logistic regression that is fitted on the features of the training samples.

    Deterministic: samples in their own order, without views, features standardised, solved by L-BFGS.
    """

    names: tuple[str, ...] = ("linear_probe_accuracy",)

    def __init__(self, encoder: Encoder, key: str | None, max_samples: int) -> None:
        self.encoder, self.key, self.max_samples = encoder, key, max_samples

    def __call__(self, run: MeasuredRun, loader: BatchLoader) -> dict[str, float]:
        """Measure. Under several processes the first one fits on the features of all."""
        in_order = dataclasses.replace(run.train_loader, shuffle=False, drop_last=False)
        train, held_out = self._features(run, in_order, self.max_samples), self._features(run, loader)
        train, held_out = _joined(run.strategy.gather(train)), _joined(run.strategy.gather(held_out))
        values = {"linear_probe_accuracy": float("nan")}
        if run.strategy.is_first:
            kept = tuple(part[: self.max_samples] for part in train)
            values = {"linear_probe_accuracy": probe_accuracy(kept, held_out)}
        return run.strategy.agreed(values)

    def _features(self, run: MeasuredRun, loader: BatchLoader, at_most: int | None = None) -> tuple[Tensor, Tensor]:
        features: list[Tensor] = []
        labels: list[Tensor] = []
        seeding.seed_sample(run.config.seed, 2)
        for number, batch in enumerate(loader.batches(0)):
            if at_most is not None and sum(map(len, labels)) >= at_most:
                break
            moved = to_device(batch, run.device)
            with run.autocast():
                found = self.encoder(run.model, only_input(moved, input_of(moved, self.key)))
            if not loader.is_spare(number):
                features.append(found.float().cpu())
                labels.append(split_batch(moved)[2].reshape(-1).cpu())
        labelled = torch.cat(labels) != IGNORED
        return torch.cat(features)[labelled], torch.cat(labels)[labelled]


def probe_accuracy(train: Any, held_out: Any) -> float:
    """Return the accuracy on `held_out`; both are (features (N, F), labels (N,))."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    (features, labels), (others, wanted) = train, held_out
    if len(labels.unique()) < 2:
        return float((wanted == labels[0]).double().mean())
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the point it reached is the same each time
        classifier.fit(features.double().numpy(), labels.numpy())
    return float((torch.from_numpy(classifier.predict(others.double().numpy())) == wanted).double().mean())


def _joined(parts: list[Any]) -> tuple[Tensor, Tensor]:
    """Return the features and labels of all processes; empty in all but the first."""
    if not parts:
        return torch.empty(0), torch.empty(0)
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
