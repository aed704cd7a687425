"""Contrastive learning: two views of a sample are to be alike; and a linear probe of the features' quality.

NT-Xent with a projection head, as in SimCLR (Chen et al. 2020, arXiv:2002.05709). B samples, F features.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room import metrics
from trainwright.trainer.clean_room.neighbours import NAME as NEIGHBOURS
from trainwright.trainer.data.tensors import IGNORED, to_device
from trainwright.trainer.objectives.batches import (
    Augmentation,
    build_augmentation,
    captured,
    input_of,
    require_module,
    with_input,
)
from trainwright.trainer.objectives.objective import Auxiliary, Built, MeasuredRun, Outcome, Setup
from trainwright.trainer.objectives.supervised import describe, plain_output, split_batch

if TYPE_CHECKING:
    from trainwright.trainer.data.loader import BatchLoader
    from trainwright.trainer.objectives.sections import ContrastiveSection


class Encoder:
    """How features are had of a model: its output, or that of one of its modules; averaged over space or tokens."""

    def __init__(self, module: str | None) -> None:
        self.module = module

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the features (B, F) of a batch. Raises ConfigurationError when there is no tensor of such a shape."""
        args, named, _ = split_batch(batch)
        with captured(model, [self.module] if self.module is not None else []) as found:
            output = model(*args, **named)
        features = plain_output(output if self.module is None else found.get(self.module))
        if isinstance(features, Tensor) and features.dim() == 4:
            features = features.mean(dim=(2, 3))
        elif isinstance(features, Tensor) and features.dim() == 3:
            features = features.mean(dim=1)
        if not isinstance(features, Tensor) or features.dim() != 2:
            raise ConfigurationError(
                f"Features are a tensor (batch, width); {self.module or 'the model'} gives {describe(features)}.",
                remedy="Set objective.features to a module that gives one (also per pixel or token).",
            )
        return features


class Contrastive:
    """The loss between the projections of two views of each sample."""

    def __init__(
        self, encoder: Encoder, head: nn.Module, augmentation: Augmentation, temperature: float, key: str | None
    ) -> None:
        self.encoder, self.head, self.augmentation = encoder, head, augmentation
        self.temperature, self.key = temperature, key

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Draw two views of each sample, pass them through the model at once, and compare."""
        x = input_of(batch, self.key)
        with torch.no_grad():
            views = torch.cat([self.augmentation(x), self.augmentation(x)])
        projected = self.head(self.encoder(model, with_input(only_input(batch, x), x, views)))
        loss, found = nt_xent(projected.float(), self.temperature)
        return Outcome(loss, values={"view_accuracy": found})

    def count(self, batch: Any) -> int:
        """Return the samples of the batch."""
        return len(input_of(batch, self.key))


def only_input(batch: Any, x: Tensor) -> Any:
    """Return the batch with its input `x`, (batch, ...), alone: two views of every sample would not fit its target.

    Raises:
        ConfigurationError: the model takes other inputs beside the one that is augmented.
    """
    args, named, _ = split_batch(batch)
    others = [value for value in (*args, *named.values()) if value is not x]
    if others:
        raise ConfigurationError(
            f"Views are drawn of one input, and the model takes {len(others)} more.",
            remedy="Hand over data with one input, or write the two views in a task's `step`.",
        )
    return (x,) if args else {next(iter(named)): x}


def nt_xent(projected_2BF: Tensor, temperature: float) -> tuple[Tensor, Tensor]:  # noqa: N803 - shapes in the names
    """Return the mean loss over all views, and the share of views whose nearest other view is their own sample's.

    Rows n and n + B of (2B, F) are the views of one sample. The loss of a view is the cross-entropy of finding its
    partner among all other views by cosine similarity over the temperature.
    """
    size = len(projected_2BF) // 2
    unit = F.normalize(projected_2BF, dim=1)
    similar = unit @ unit.T / temperature
    itself = torch.eye(2 * size, dtype=torch.bool, device=unit.device)
    similar = similar.masked_fill(itself, -torch.inf)
    partner = torch.arange(2 * size, device=unit.device).roll(size)
    return F.cross_entropy(similar, partner), (similar.argmax(1) == partner).float().mean()


def build_head(width: int, widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers from the features' width through `widths`, with ReLU between them."""
    layers: list[nn.Module] = []
    for number, next_width in enumerate(widths):
        layers += [nn.ReLU()] * (number > 0) + [nn.Linear(width, next_width)]
        width = next_width
    return nn.Sequential(*layers)


class LinearProbe:
    """Accuracy on a split of a logistic regression that is fitted on the features of the training samples.

    Beside it that of each row's nearest other row in the split, which the clean room computes from the program too.
    Deterministic: samples in their own order, without views, features standardised, solved by L-BFGS.
    """

    names: tuple[str, ...] = ("linear_probe_accuracy", NEIGHBOURS)

    def __init__(self, encoder: Encoder, key: str | None, max_samples: int) -> None:
        self.encoder, self.key, self.max_samples = encoder, key, max_samples

    def __call__(self, run: MeasuredRun, loader: BatchLoader) -> dict[str, float]:
        """Measure. Under several processes the first one fits on the features of all."""
        in_order = dataclasses.replace(run.train_loader, shuffle=False, drop_last=False)
        train, held_out = self._features(run, in_order, self.max_samples), self._features(run, loader)
        train, held_out = _joined(run.strategy.gather(train)), _joined(run.strategy.gather(held_out))
        values = dict.fromkeys(self.names, float("nan"))
        if run.strategy.is_first:
            kept = tuple(part[: self.max_samples] for part in train)
            nearest = metrics.compute(NEIGHBOURS, held_out[0].numpy(), held_out[1].numpy())
            values = {"linear_probe_accuracy": probe_accuracy(kept, held_out), NEIGHBOURS: nearest}
        return run.strategy.agreed(values)

    def _features(self, run: MeasuredRun, loader: BatchLoader, at_most: int | None = None) -> tuple[Tensor, Tensor]:
        features: list[Tensor] = []
        labels: list[Tensor] = []
        seeding.seed_measurement(run.seed, 2)
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


def build_contrastive(section: ContrastiveSection, setup: Setup) -> Built:
    """Return the loss between views with its head; the linear probe where the data has class numbers."""
    model, batch, encoder = setup.work.model, setup.batch(), Encoder(section.features)
    if section.features is not None:
        require_module(model, section.features, "objective.features")
    x = input_of(batch, section.input)
    augmentation = build_augmentation(section.augmentation, x)
    with setup.without_trace():
        width = encoder(model, only_input(batch, x)).shape[1]
    head = build_head(width, section.projection).to(setup.device)
    target = split_batch(batch)[2]
    probed = section.linear_probe and isinstance(target, Tensor) and target.dtype == torch.int64 and target.dim() == 1
    measures = [LinearProbe(encoder, section.input, section.probe_samples)] if probed else []
    objective = Contrastive(encoder, head, augmentation, section.temperature, section.input)
    return Built(objective, objective, Auxiliary(nn.ModuleDict({"head": head}), measures))
