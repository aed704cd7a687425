"""Hooks into a Trainer's own loop, on the instance: where a step ends, an update is judged, and a run is resumed.

Trainer's resume skips samples without drawing them and restores the generators after the first batch was fetched; here
it is entered at the same place (`_run_epoch` with a position), and everything is put back by us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor
from transformers import TrainerCallback
from transformers import trainer as library

from trainwright.trainer.frameworks.attributes import OF_THE_CLOCK, Attributes, Modules, named
from trainwright.trainer.frameworks.framework import Deferred, Plan
from trainwright.trainer.frameworks.generators import evaluating
from trainwright.trainer.frameworks.loop import Moments, mean_loss
from trainwright.trainer.frameworks.positioned import PositionedLoader

MEASURED_BY_US = frozenset({"loss", "grad_norm", "learning_rate", "epoch", "total_flos", "train_loss"})
"""Logged values that the run has already, and totals."""


class Hooked(Protocol):
    """The framework that the hooks work for: the library's object, and what is to be put back into it."""

    trainer: Any
    loader: PositionedLoader
    plan: Plan
    deferred: dict[str, Deferred]
    state: Attributes
    attributes: Attributes
    modules: Modules


class Hooks(TrainerCallback):  # type: ignore[misc]
    """First of the trainer's callbacks, and around some of its methods while it trains."""

    TAKEN = (
        "_init_training_state", "_prepare_for_training", "_run_epoch", "_load_rng_state", "training_step",
        "_get_grad_norm", "_maybe_log_save_evaluate", "evaluate",
    )  # fmt: skip
    """Methods that are wrapped."""

    def __init__(self, framework: Hooked, moments: Moments) -> None:
        self.framework, self.trainer, self.moments = framework, framework.trainer, moments
        self.start = moments.progress.epoch, moments.progress.batch
        """Position at which this attempt begins."""
        self.losses: list[Tensor] = []
        """Of the update's micro-batches."""
        self.norm: Any = None
        self.logged: dict[str, float] = {}
        self.epoch_is_over = False
        self.measured: tuple[int, dict[str, float]] | None = None
        """Step of the newest evaluation of the whole validation split, and its values."""
        self.stopping = False
        """Whether the end was ours to ask for."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Wrap the methods, and stand first among the callbacks, inside the context."""
        trainer, handler, skip = self.trainer, self.trainer.callback_handler, library.skip_first_batches
        for kept in (self.framework.attributes, self.framework.modules):
            kept.begin()
        for name in self.TAKEN:
            setattr(trainer, name, self._around(name, getattr(trainer, name)))
        handler.callbacks.insert(0, self)
        library.skip_first_batches = _skip(skip)
        try:
            yield
        finally:
            library.skip_first_batches = skip
            handler.callbacks.remove(self)
            for name in self.TAKEN:
                delattr(trainer, name)

    def _around(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        own = getattr(self, f"around{name}" if name.startswith("_") else f"around_{name}")
        return lambda *args, **kwargs: own(original, *args, **kwargs)

    # the beginning of an attempt

    def around_init_training_state(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Begin at our position, with the saved TrainerState."""
        original(*args, **kwargs)
        self.framework.state.begin()
        self.framework.state.apply()
        return self.start

    def around_prepare_for_training(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Put optimizer, schedule and scaler back once they are all there."""
        found = original(*args, **kwargs)
        for deferred in self.framework.deferred.values():
            deferred.apply()
        return found

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Put back what trainer, callbacks and other modules keep."""
        for kept in (self.framework.attributes, self.framework.modules):
            kept.apply()

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        """Put the generators back where the attempt begins with an epoch: the user's callbacks may draw after us."""
        self.losses = []  # an accumulation that the epoch's end cut off made no update
        if self.start[1] == 0:
            self.moments.restore_generators()

    def around_run_epoch(self, original: Callable[..., Any], **kwargs: Any) -> Any:
        """Enter the first epoch as a resumed one where the position is inside it."""
        if self.start[1] and kwargs["epoch"] == self.start[0]:
            kwargs["resume_from_checkpoint"] = self.moments.session.run.run_id
            self.moments.restore_generators()  # the readings of batches leave them alone
        return original(**kwargs)

    def around_load_rng_state(self, original: Callable[..., Any], *_: Any, **__: Any) -> None:
        """Leave the generators: they were put back before the epoch."""

    # a step

    def around_training_step(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Keep the loss of the micro-batch."""
        loss = original(*args, **kwargs)
        self.losses.append(loss)
        return loss

    def around_get_grad_norm(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Judge the update before it is made. Raises DivergenceError."""
        self.norm = original(*args, **kwargs)
        self.moments.require_finite(self.losses, self.norm, scaled=self.trainer.accelerator.scaler is not None)
        return self.norm

    def on_log(self, _args: Any, _state: Any, _control: Any, logs: Any = None, **__: Any) -> None:
        """Keep the values that the trainer measures itself."""
        for name, value in (logs or {}).items():
            ours = name in MEASURED_BY_US or name.startswith("eval_") or OF_THE_CLOCK.fullmatch(name)
            if not ours and isinstance(value, int | float):
                self.logged[name] = float(value)

    def on_epoch_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        """Note that the next boundary is an epoch's."""
        self.epoch_is_over = True
        if self.moments.leaves:
            control.should_evaluate = control.should_log = control.should_save = False

    def around_maybe_log_save_evaluate(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Tell the run of a step or an epoch that is done with everything that the trainer does after it."""
        if self.epoch_is_over and self.moments.leaves:
            return
        original(*args, **kwargs)
        if self.epoch_is_over:
            self.epoch_is_over = False
            self._epoch_done()
        else:
            self._step_done(kwargs.get("learning_rate"))
        if self.moments.must_stop and not self._ends_epoch():
            self.stopping = True
            self.trainer.control.should_training_stop = True

    def _ends_epoch(self) -> bool:
        """Return whether a request to stop waits for the end of the epoch, which is now."""
        progress = self.moments.progress
        return progress.batch >= len(self.framework.loader) and progress.stop_reason is None

    def _step_done(self, rate: float | None) -> None:
        progress, losses, norm = self.moments.progress, self.losses, self.norm
        batches = self.framework.loader.order(progress.epoch)[progress.batch : progress.batch + len(losses)]
        logged, self.logged, self.losses, self.norm = self.logged, {}, [], None
        self.moments.step(
            mean_loss(losses),
            norm if isinstance(norm, Tensor) or norm is None else losses[0].new_tensor(norm),
            rate=float(rate or 0.0),
            micro_batches=len(losses),
            samples=sum(min(len(batch), self.framework.plan.batch_size) for batch in batches),  # GRPO's are read whole
            values=dict(logged),
        )

    def _epoch_done(self) -> None:
        trainer, own = self.trainer, self.stopping
        by_callback = trainer.control.should_training_stop and not own
        planned = trainer.state.global_step >= trainer.state.max_steps
        self.moments.epoch(self._validated, over="early_stopping" if by_callback and not planned else None)

    def _validated(self) -> dict[str, float]:
        if self.measured is None or self.measured[0] != self.trainer.state.global_step:
            self.trainer.evaluate()
        assert self.measured is not None  # noqa: S101 - by around_evaluate
        return self.measured[1]

    def around_evaluate(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Evaluate without a trace in the generators, and keep the values."""
        with evaluating(self.trainer.eval_dataset, self.trainer.data_collator):
            found = original(*args, **kwargs)
        is_whole = not args and kwargs.get("eval_dataset") is None
        if is_whole and kwargs.get("metric_key_prefix", "eval") == "eval":
            self.measured = self.trainer.state.global_step, named(found)
        return found


def _skip(original: Callable[..., Any]) -> Callable[..., Any]:
    def skip_first_batches(loader: Any, num_batches: int = 0) -> Any:
        return loader.from_batch(num_batches) if isinstance(loader, PositionedLoader) else original(loader, num_batches)

    return skip_first_batches
