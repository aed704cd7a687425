"""Signals that the worker reads while it trains: the last samples of the series that it records.

They are those of the same names in the server's monitor (tools/training_monitor/signals/), over the same numbers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from trainwright.trainer.run.conditions import (
    FALLEN,
    FINDINGS,
    FIRST_STEPS,
    NEWEST_STEPS,
    READINGS,
    Sample,
    loss_remaining,
    starting_loss,
)
from trainwright.trainer.run.metrics import MetricStore

STEP_LOSS, EPOCH_LOSS = "train/loss", "train/epoch_loss"
NORM, APPLIED = READINGS["gradient_norm"], "train/applied_gradient_norm"
SPEED = "throughput/samples_per_second"
WAIT = READINGS["data_wait_share"]


class Series:
    """The newest samples of each series, as the file has them, and the findings by their id.

    Args:
        window: most samples that a condition evaluates.
        batch: samples of one update; None: not known.
        is_adaptive: whether the optimizer divides the gradient's size out.
        judges_losses: whether a falling loss means learning; not of updates of the user's own.
        class_shares: of the train split, where the loss is their cross entropy.
    """

    def __init__(
        self, store: MetricStore, window: int, *, batch: int | None = None, is_adaptive: bool = False,
        judges_losses: bool = True, class_shares: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.batch, self.is_adaptive, self.judges_losses = batch, is_adaptive, judges_losses
        self.class_shares = class_shares
        self.store, self.window = store, max(window, NEWEST_STEPS)
        self.findings: dict[str, list[Sample]] = {}
        self._read: dict[str, list[Sample]] = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read each series once inside."""
        self._read = {}
        with self.store.reading():
            yield

    def newest(self, key: str) -> list[Sample]:
        """Return the last samples of a key. Raises IntegrityError."""
        if key not in self._read:
            self._read[key] = [Sample(point.step, point.value) for point in self.store.tail(key, self.window)]
        return self._read[key]

    def starting_loss(self) -> float | None:
        """Return the loss before anything was learned; None where no step's is finite. Raises IntegrityError."""
        return starting_loss([point.value for point in self.store.head(STEP_LOSS, FIRST_STEPS)], self.class_shares)

    def read(self, name: str, of: str) -> list[Sample]:
        """Return a signal's samples; `of` is the id of the diagnostic that reads them."""
        return self.findings.get(of, []) if name == FINDINGS else SIGNALS[name](self)


def applied_gradient_norm(series: Series) -> list[Sample]:
    """Per step: total gradient norm as it reached the optimizer, after clipping where the run clips."""
    return series.newest(APPLIED) or series.newest(NORM)


def train_loss_remaining(series: Series) -> list[Sample]:
    """Training loss now ÷ starting loss; per epoch, else of the last steps."""
    if not series.judges_losses:
        return []
    return loss_remaining(series.starting_loss(), series.newest(EPOCH_LOSS), series.newest(STEP_LOSS))


def wait_per_step(series: Series) -> list[Sample]:
    """Seconds for which a step waited for its data, the median of the newest readings (one sample)."""
    waits = {sample.step: sample.value for sample in series.newest(WAIT)}
    rates = [sample for sample in series.newest(SPEED) if sample.value > 0 and sample.step in waits]
    if not rates or series.batch is None:
        return []
    seconds = [waits[sample.step] * series.batch / sample.value for sample in rates]
    return [rates[-1]._replace(value=statistics.median(seconds))]


def scale_is_harmless(series: Series) -> list[Sample]:
    """1 where a large gradient is a matter of units: the loss fell, or the optimizer divides it out; else 0."""
    remaining = train_loss_remaining(series)
    fell = bool(remaining) and remaining[-1].value <= FALLEN
    return [Sample(remaining[-1].step if remaining else 0, float(fell or series.is_adaptive))]


SIGNALS: dict[str, Callable[[Series], list[Sample]]] = {
    **{name: partial(Series.newest, key=key) for name, key in READINGS.items()},
    "applied_gradient_norm": applied_gradient_norm,
    "train_loss_remaining": train_loss_remaining,
    "wait_per_step": wait_per_step,
    "scale_is_harmless": scale_is_harmless,
}
"""Every signal but FINDINGS by its name: those of trainer.run.conditions.WORKER_SIGNALS."""
