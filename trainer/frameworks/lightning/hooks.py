"""Hooks into Lightning's own loops, on the instances: where a step ends, an update is judged, and a run is resumed.

Lightning's resume restores no generator, repeats or skips parts of its loops by what a checkpoint's counters look like,
and forgets what was logged so far in the epoch. Here its loops never know that they are resumed: counters, results and
attributes are put back, and the first epoch is entered at its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor

from trainwright.trainer.data.tensors import batch_size
from trainwright.trainer.frameworks.attributes import in_our_words
from trainwright.trainer.frameworks.framework import Plan
from trainwright.trainer.frameworks.generators import evaluating
from trainwright.trainer.frameworks.lightning.settings import PREFIXES
from trainwright.trainer.frameworks.loop import Moments, mean_loss
from trainwright.trainer.frameworks.positioned import PositionedLoader
from trainwright.trainer.optimization.update import clip_to, total_norm

TAKEN = {
    "fit_loop": ("on_run_start", "on_advance_start", "on_advance_end"),
    "epoch_loop": ("reset", "on_advance_end"),
    "val_loop": ("run",),
    "strategy": ("backward", "validation_step"),
    "precision_plugin": ("_after_closure", "clip_grad_by_norm"),
}
"""Methods that are wrapped while it trains, by what has them."""


def parts_of(trainer: Any) -> dict[str, Any]:
    """Return the objects of a lightning.Trainer that TAKEN names."""
    epochs = trainer.fit_loop.epoch_loop
    return {
        "fit_loop": trainer.fit_loop,
        "epoch_loop": epochs,
        "val_loop": epochs.val_loop,
        "strategy": trainer.strategy,
        "precision_plugin": trainer.precision_plugin,
    }


class Hooked(Protocol):
    """The framework that the hooks work for."""

    trainer: Any
    loader: PositionedLoader
    validation_loader: Any
    plan: Plan
    logged: dict[str, float]

    def put_back(self) -> None:
        """Put back what exists only once training begins."""

    def accumulates(self) -> bool:
        """Return whether the newest batch made no update yet."""

    def micro_batches(self, done: int) -> int:
        """Return how many batches of the epoch came after the first `done`."""

    def evaluate(self, samples: Any) -> dict[str, float]:
        """Return the values of a data set; None: of the validation split."""


class Hooks:
    """Around methods of the trainer's loops while it trains."""

    def __init__(self, framework: Hooked, moments: Moments) -> None:
        self.framework, self.trainer, self.moments = framework, framework.trainer, moments
        self.resumed_inside = moments.progress.batch > 0
        """Whether the first epoch of this attempt is entered in its middle."""
        self.losses: list[Tensor] = []
        """Of the update's micro-batches."""
        self.norm: Tensor | None = None
        self.judged: list[tuple[int, int]] = []
        """Identity and version of each gradient that the norm was measured of."""
        self.rate = 0.0
        self.validated: tuple[int, dict[str, float]] | None = None
        """Step of the newest validation by the trainer itself, and its values."""
        self.returned: list[tuple[float, int]] = []
        """Losses that validation_step returned, with the sizes of their batches."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Wrap the methods inside the context."""
        with ExitStack() as stack:
            for owner, part in parts_of(self.trainer).items():
                for name in TAKEN[owner]:
                    stack.enter_context(wrapped(part, name, getattr(self, f"{owner}_{name.removeprefix('_')}")))
            yield

    # the beginning of an attempt

    def fit_loop_on_run_start(self, original: Callable[..., Any]) -> None:
        """Put back what trainer, callbacks and modules keep, after their own beginning."""
        original()
        self.framework.put_back()

    def fit_loop_on_advance_start(self, original: Callable[..., Any]) -> None:
        """Begin an epoch, or enter the first at its batch, with the generators as they were."""
        self.losses = []
        loader, progress = self.framework.loader, self.moments.progress
        loader.set_epoch(progress.epoch)
        if self.resumed_inside:
            loader.from_batch(progress.batch)
            self.moments.restore_generators()
        else:
            self.moments.restore_generators()
            original()

    def epoch_loop_reset(self, original: Callable[..., Any]) -> None:
        """Reset an epoch's counters, but those of an epoch that is entered in its middle."""
        if not self.resumed_inside:
            original()
        self.resumed_inside = False

    # a step

    def strategy_backward(self, original: Callable[..., Any], loss: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Keep the loss of the micro-batch, a scalar."""
        self.losses.append(loss.detach())
        return original(loss, *args, **kwargs)

    def precision_plugin_after_closure(self, original: Callable[..., Any], model: Any, optimizer: Any) -> None:
        """Judge the update before it is clipped and made. Raises DivergenceError."""
        _, gradients = _trained_by(optimizer)
        self.norm, self.judged = total_norm(gradients), _versions(gradients)
        self.rate = max(float(group["lr"]) for group in optimizer.param_groups)
        scaled = getattr(self.trainer.precision_plugin, "scaler", None) is not None
        self.moments.require_finite(self.losses, self.norm, scaled=scaled)
        original(model, optimizer)

    def precision_plugin_clip_grad_by_norm(self, original: Callable[..., Any], optimizer: Any, clip_val: Any) -> None:
        """Clip by the norm that was measured, to the same bits, unless a hook has changed gradients since."""
        parameters, gradients = _trained_by(optimizer)
        if self.norm is None or self.judged != _versions(gradients):
            original(optimizer, clip_val)
        else:
            clip_to(parameters, gradients, float(clip_val), self.norm)

    def epoch_loop_on_advance_end(self, original: Callable[..., Any], *args: Any) -> None:
        """Tell the run of a step that is done with everything that the trainer does after it.

        Raises:
            StopIteration: no further step may be made.
        """
        original(*args)
        if self.framework.accumulates():
            return
        self._tell()
        if self.moments.must_stop:
            raise StopIteration

    def _tell(self) -> None:
        loader, progress, losses = self.framework.loader, self.moments.progress, self.losses
        micro_batches = self.framework.micro_batches(progress.batch)
        batches = loader.order(progress.epoch)[progress.batch : progress.batch + micro_batches]
        norm, logged = self.norm, dict(self.framework.logged)
        self.losses, self.norm = [], None
        self.framework.logged.clear()
        self.moments.step(
            mean_loss(losses) if losses else torch.zeros(()),
            norm,
            rate=self.rate,
            micro_batches=micro_batches,
            samples=sum(map(len, batches)),
            values=logged,
        )

    # an epoch

    def fit_loop_on_advance_end(self, original: Callable[..., Any]) -> None:
        """End an epoch, unless training is left inside it.

        Raises:
            StopIteration: training is over.
        """
        if self.moments.leaves:
            raise StopIteration
        if self.moments.must_stop:
            self._validate_before_the_end()
        original()
        self.moments.epoch(self._values, over=self._over())
        if self.moments.must_stop:
            raise StopIteration

    def _validate_before_the_end(self) -> None:
        """Validate where a bound cut the epoch short: EarlyStopping reads `val_loss` at its end, and fails without."""
        trainer = self.trainer
        if self.validated is not None and self.validated[0] == trainer.global_step:
            return
        first = trainer._logger_connector._first_loop_iter
        trainer.validating = True
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        trainer._logger_connector._first_loop_iter = first

    def _over(self) -> str | None:
        loop, trainer = self.trainer.fit_loop, self.trainer
        if trainer.should_stop and loop._can_stop_early:
            return "early_stopping"
        return "max_steps" if loop.done and not self.moments.must_stop and not self._planned else None

    @property
    def _planned(self) -> bool:
        return self.moments.progress.epoch + 1 >= self.framework.plan.epochs

    def _values(self) -> dict[str, float]:
        if self.validated is None or self.validated[0] != self.trainer.global_step:
            return self.framework.evaluate(None)
        return self.validated[1]

    def val_loop_run(self, original: Callable[..., Any]) -> Any:
        """Validate without a trace in the generators, and keep the values."""
        self.returned = []
        loader = self.framework.validation_loader
        with evaluating(loader.dataset, loader.collate_fn):
            found = original()
        self.validated = self.trainer.global_step, with_loss(found, self.returned)
        return found

    def strategy_validation_step(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Keep the loss that validation_step returns, for modules that log none."""
        found = original(*args, **kwargs)
        note_loss(self.returned, found, args or tuple(kwargs.values()))
        return found


def _trained_by(optimizer: Any) -> tuple[list[torch.nn.Parameter], list[Tensor]]:
    """Return an optimizer's parameters that have a gradient, and their gradients."""
    parameters = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
    return parameters, [each.grad for each in parameters]


def _versions(gradients: list[Tensor]) -> list[tuple[int, int]]:
    return [(id(each), each._version) for each in gradients]


@contextmanager
def wrapped(part: Any, name: str, around: Callable[..., Any]) -> Iterator[None]:
    """Let calls of a method of this object go through `around(original, ...)` inside the context."""
    before = vars(part).get(name)
    original = getattr(part, name)
    vars(part)[name] = lambda *args, **kwargs: around(original, *args, **kwargs)
    try:
        yield
    finally:
        if before is None:
            vars(part).pop(name, None)
        else:
            vars(part)[name] = before


def named(values: Mapping[str, Any]) -> dict[str, float]:
    """Return measured values by the names that a run has for them: without `val_`, `_epoch` and those of one step."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if name.endswith("_step"):
            continue
        short = name.removesuffix("_epoch")
        prefix = next((each for each in PREFIXES if short.startswith(each) and len(short) > len(each)), "")
        found[short.removeprefix(prefix)] = float(value)
    return in_our_words(found)


def with_loss(outputs: list[dict[str, Any]], returned: list[tuple[float, int]]) -> dict[str, float]:
    """Return the values of a validation: what was logged, and the mean of the returned losses where no loss was."""
    found = named(outputs[0]) if outputs else {}
    if "loss" not in found and returned:
        found["loss"] = sum(loss * size for loss, size in returned) / sum(size for _, size in returned)
    return found


def note_loss(returned: list[tuple[float, int]], found: Any, arguments: tuple[Any, ...]) -> None:
    """Add the loss that a validation_step returned, if it did."""
    loss = found.get("loss") if isinstance(found, Mapping) else found
    if isinstance(loss, Tensor) and loss.numel() == 1:
        returned.append((float(loss), batch_size(arguments[0])))
