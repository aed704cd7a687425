"""Adversarial training, and accuracy under attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.data.tensors import IGNORED, to_device
from trainwright.trainer.metrics.built_in import predicted_classes
from trainwright.trainer.objectives.batches import input_of, with_input
from trainwright.trainer.objectives.objective import (
    Auxiliary,
    Built,
    MeasuredRun,
    Objective,
    Outcome,
    Setup,
    evaluation_mode,
)

if TYPE_CHECKING:
    from trainwright.trainer.data.loader import BatchLoader
    from trainwright.trainer.objectives.sections import AdversarialSection


@dataclass(frozen=True)
class Attack:
    """Steps of equal size along the sign of the loss's gradient, kept within epsilon in the maximum norm.

    One step of size epsilon from the input itself is FGSM (Goodfellow et al. 2015, arXiv:1412.6572); several smaller
    ones from a random start are PGD (Madry et al. 2018, arXiv:1706.06083).
    """

    epsilon: float
    steps: int
    step_size: float
    random_start: bool
    clip_range: tuple[float, float] | None
    key: str | None

    @classmethod
    def for_training(cls, section: AdversarialSection) -> Attack:
        """Return the attack that training defends against."""
        if section.attack == "fgsm":
            return cls(section.epsilon, 1, section.epsilon, False, section.clip_range, section.input)
        size = section.step_size or 2.5 * section.epsilon / section.steps
        return cls(section.epsilon, section.steps, size, section.random_start, section.clip_range, section.input)

    @classmethod
    def for_evaluation(cls, section: AdversarialSection) -> Attack:
        """Return the attack of validation: PGD, regardless of the training's attack."""
        steps, size = section.evaluation_steps, section.evaluation_step_size
        return cls(section.epsilon, steps, size, True, section.clip_range, section.input)

    def __call__(self, objective: Objective, model: nn.Module, batch: Any) -> Any:
        """Return the batch with its input (batch, ...) moved to where the loss is higher.

        The model is attacked as it will be used, in evaluation mode. Starts are drawn from the global generators.
        """
        moved = clean = input_of(batch, self.key)
        if self.random_start:
            moved = self._inside(clean, clean + self.epsilon * (2.0 * torch.rand_like(clean) - 1.0))
        with evaluation_mode(model), torch.enable_grad():
            for _ in range(self.steps):
                moved = moved.detach().requires_grad_()
                loss = objective(model, with_input(batch, clean, moved)).loss
                (gradient,) = torch.autograd.grad(loss, moved)
                moved = self._inside(clean, moved.detach() + self.step_size * gradient.sign())
        return with_input(batch, clean, moved.detach())

    def _inside(self, clean: Tensor, moved: Tensor) -> Tensor:
        moved = clean + (moved - clean).clamp(-self.epsilon, self.epsilon)
        return moved if self.clip_range is None else moved.clamp(*self.clip_range)


class Adversarial:
    """The inner objective on attacked batches, mixed with that on the batches as they are."""

    def __init__(self, inner: Objective, section: AdversarialSection) -> None:
        self.inner, self.attack, self.clean_weight = inner, Attack.for_training(section), section.clean_weight

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss; outputs and training metrics are those under attack."""
        outcome = self.inner(model, self.attack(self.inner, model, batch))
        if self.clean_weight:
            clean = self.inner(model, batch).loss
            values = {**outcome.values, "clean_loss": clean.detach(), "adversarial_loss": outcome.loss.detach()}
            loss = torch.lerp(outcome.loss, clean, self.clean_weight)
            return Outcome(loss, outcome.output, outcome.target, values)
        return outcome

    def count(self, batch: Any) -> int:
        """Return the inner objective's count."""
        return self.inner.count(batch)


class Robustness:
    """Loss and, for classes, accuracy of a split under attack."""

    def __init__(self, objective: Objective, section: AdversarialSection, *, of_classes: bool) -> None:
        self.objective, self.attack, self.of_classes = objective, Attack.for_evaluation(section), of_classes
        self.names: tuple[str, ...] = ("robust_loss", "robust_accuracy") if of_classes else ("robust_loss",)

    def __call__(self, run: MeasuredRun, loader: BatchLoader) -> dict[str, float]:
        """Attack every batch, with starts that are the same at each evaluation."""
        sums = torch.zeros(4, dtype=torch.float64, device=run.device)  # loss, its terms, right, counted
        seeding.seed_measurement(run.seed, 1)
        for number, batch in enumerate(loader.batches(0)):
            moved = to_device(batch, run.device)
            with run.autocast():
                outcome = self.objective(run.model, self.attack(self.objective, run.model, moved))
            if not loader.is_spare(number):
                sums += self._sums_of(outcome, self.objective.count(moved))
        loss, terms, right, counted = run.strategy.total(sums).tolist()
        values = {"robust_loss": loss / max(terms, 1), "robust_accuracy": right / max(counted, 1)}
        return {name: values[name] for name in self.names}

    def _sums_of(self, outcome: Outcome, count: int) -> Tensor:
        sums = [outcome.loss.detach() * count, count, 0, 0]
        if self.of_classes:
            wanted = outcome.target.reshape(-1)
            counted = wanted != IGNORED
            hits = predicted_classes(outcome.output, outcome.target).reshape(-1) == wanted
            sums[2:] = (hits & counted).sum(), counted.sum()
        return torch.stack([torch.as_tensor(value, dtype=torch.float64, device=outcome.loss.device) for value in sums])


def build_adversarial(section: AdversarialSection, plain: Objective, setup: Setup) -> Built:
    """Return the plain objective under attack, and the measure of robustness."""
    batch = setup.batch()
    input_of(batch, section.input)
    with setup.without_trace():
        outcome = plain(setup.work.model, batch)
    is_integer = isinstance(outcome.target, Tensor) and not outcome.target.is_floating_point()
    of_classes = isinstance(outcome.output, Tensor) and (is_integer or setup.work.task == "binary")
    return Built(
        Adversarial(plain, section), plain, Auxiliary(measures=[Robustness(plain, section, of_classes=of_classes)])
    )
