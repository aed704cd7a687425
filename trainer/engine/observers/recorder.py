"""Records of a run: numbers of every step for metrics and trackers, the position, and a guard of the settings."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from trainwright.trainer.acceleration.precision import MINIMUM_SCALE
from trainwright.trainer.base.errors import DivergenceError
from trainwright.trainer.engine.loop import divergence
from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.trackers import Trackers
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run.metrics import MetricStore
from trainwright.trainer.supervision.heartbeat import Heartbeat
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.user_code import guard

FLUSH_SECONDS = 1.0
MAX_ROWS_WAITING = 4096
NORMS = ("gradient_norm", "applied_gradient_norm")

Row = tuple[str, int, float, float]


class Recorder(Observer):
    """Records losses, gradient norms, learning rates, throughput, epoch values and the machine's measurements."""

    def __init__(self, store: MetricStore, trackers: Trackers, sampler: SystemSampler) -> None:
        self.store, self.trackers, self.sampler = store, trackers, sampler
        self.waiting: list[tuple[StepResult, float]] = []
        """Steps whose values have not been read from the device."""
        self.rows: list[Row] = []
        self.shown: list[tuple[dict[str, float], int, float]] = []
        """Rows for the trackers: values, step and moment."""
        self.losses: deque[tuple[int, float]] = deque(maxlen=MAX_ROWS_WAITING)
        """Steps with their losses since somebody took them: whoever watches need not read the store."""
        self.flushed_at = self.window_at = time.monotonic()
        self.window = (0, 0.0)
        """Samples trained on and seconds waited for data when the present window began."""

    def start(self, session: Session) -> None:
        """Delete rows of an earlier attempt past the present position: they will be recorded again."""
        self.store.forget_after(session.progress.step)
        self._repeat_history(session)
        self._open_window(session)

    def step(self, session: Session, result: StepResult) -> None:
        """Keep the step's values; read them when enough have gathered."""
        self.waiting.append((result, time.time()))
        if session.saves_at(result.step):  # a checkpoint's values are recorded before it
            self.read(session)
            self.flush()
        if result.step % session.config.logging.every_n_steps == 0:
            self.read(session)
            self._throughput(session)
            if time.monotonic() - self.flushed_at > FLUSH_SECONDS or len(self.rows) > MAX_ROWS_WAITING:
                self.flush()

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Record the epoch's values at its last step."""
        self.read(session)
        self._add(_epoch_values(result.epoch, result.train, result.validation), result.step, time.time())
        self.flush()

    def stop(self, session: Session, reason: str) -> None:  # noqa: ARG002 - the moment's form
        """Record the remaining steps, and the machine's measurements in a run too short for the sampler's interval."""
        self.read(session)
        if self.sampler.mean("cpu_percent") is None:
            self.sampler.measure()
        self._system(session)
        self.flush()

    def close(self) -> None:
        """Write the remaining rows and close the files."""
        try:
            self.flush()
        finally:
            self.store.close()
            self.trackers.close()

    def read(self, session: Session) -> None:
        """Read the waiting values from the device, in one transfer. Raises DivergenceError for the first bad step."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        named = [_measured(result) for result, _ in waiting]
        tensors = [value for values in named for value in values.values() if isinstance(value, Tensor)]
        read = iter(_read(tensors, session.device))
        for (result, moment), values in zip(waiting, named, strict=True):
            numbers = {
                name: next(read) if isinstance(value, Tensor) else float(value) for name, value in values.items()
            }
            numbers["learning_rate"] = result.learning_rate
            if numbers.get("update_skipped") and numbers["loss_scale"] >= MINIMUM_SCALE:
                for name in NORMS:  # they overflowed under the scale, which has been lowered since
                    numbers.pop(name, None)
            self.rows += [(f"train/{name}", result.step, value, moment) for name, value in numbers.items()]
            norm = numbers.get("gradient_norm", 0.0)
            if not (math.isfinite(numbers["loss"]) and math.isfinite(norm)):
                raise divergence(
                    session, result.step, result.epoch, result.batch, result.micro_batches, numbers["loss"], norm
                )
            self.losses.append((result.step, numbers["loss"]))
        self.shown.append(
            ({f"train/{name}": value for name, value in numbers.items()}, waiting[-1][0].step, waiting[-1][1])
        )

    def note_non_finite(self, session: Session, step: int, loss: float, norm: float) -> None:
        """Record the steps before the one that ended the run, which show how it happened, and its own values."""
        with contextlib.suppress(DivergenceError):
            self.read(session)
        now = time.time()
        self.rows += [("train/loss", step, loss, now), ("train/gradient_norm", step, norm, now)]

    def add_measured(self, values: dict[str, float], step: int) -> None:
        """Record numbers of a step that was inspected; the trackers show those of the whole run (`watch/…`)."""
        now = time.time()
        self.rows += [(key, step, value, now) for key, value in values.items()]
        if shown := {key: value for key, value in values.items() if key.startswith("watch/")}:
            self.shown.append((shown, step, now))

    def flush(self) -> None:
        """Write the rows. Raises sqlite3.Error."""
        rows, self.rows = self.rows, []
        shown, self.shown = self.shown, []
        self.flushed_at = time.monotonic()
        if rows:
            self.store.write(rows)
        self.trackers.log(shown)

    def _repeat_history(self, session: Session) -> None:
        """Record the checkpoint's values of earlier epochs again where the file differs.

        The file of a killed worker is not reliable: rows may have been lost with the power, or edited.
        """
        remembered: dict[str, dict[int, float]] = {}
        for entry in session.progress.history:
            for key, value in _epoch_values(entry["epoch"], entry["train"], entry["validation"]).items():
                remembered.setdefault(key, {})[entry["step"]] = float(value)
        for key, values in remembered.items():
            found = {point.step: repr(point.value) for point in self.store.series(key)}
            self.rows += [(key, step, v, time.time()) for step, v in values.items() if found.get(step) != repr(v)]
        self.flush()

    def _throughput(self, session: Session) -> None:
        progress, seconds = session.progress, time.monotonic() - self.window_at
        samples, waited = self.window
        values = {
            "throughput/samples_per_second": (progress.samples - samples) / max(seconds, 1e-9),
            "throughput/data_wait_fraction": min((progress.data_wait_seconds - waited) / max(seconds, 1e-9), 1.0),
        }
        self._add(values, progress.step, time.time(), is_shown=False)
        self._system(session)
        self._open_window(session)

    def _system(self, session: Session) -> None:
        values = {f"system/{name}": value for name, value in self.sampler.take().items()} | _allocated(session.device)
        self._add(values, session.progress.step, time.time(), is_shown=False)

    def _open_window(self, session: Session) -> None:
        self.window = (session.progress.samples, session.progress.data_wait_seconds)
        self.window_at = time.monotonic()

    def _add(self, values: dict[str, float], step: int, now: float, *, is_shown: bool = True) -> None:
        self.rows += [(key, step, value, now) for key, value in values.items()]
        if is_shown:
            self.shown.append((values, step, now))


def _allocated(device: torch.device) -> dict[str, float]:
    """Return what this process's allocator holds of the device: its own counters, without a wait for the device."""
    if device.type != "cuda":
        return {}
    return {
        "system/gpu_memory_allocated_bytes": float(torch.cuda.memory_allocated(device)),
        "system/gpu_memory_reserved_bytes": float(torch.cuda.memory_reserved(device)),
    }


def _measured(result: StepResult) -> dict[str, Tensor | float]:
    """Return a step's measurements by name; a norm that was not measured is left out, for 0 would mean it vanished."""
    norm: dict[str, Tensor | float] = {} if result.gradient_norm is None else {"gradient_norm": result.gradient_norm}
    return {"loss": result.loss, **norm, **result.values}


def _read(values: Sequence[Tensor], device: torch.device) -> list[float]:
    """Return the means of tensors of any shape in one transfer; what user code left on the CPU goes along with it."""
    scalars = [_scalar(value) for value in values]
    if device.type != "cpu":
        scalars = [value.to(device, non_blocking=True) for value in scalars]
    return torch.stack(scalars).tolist() if scalars else []


def _scalar(value: Tensor) -> Tensor:
    """Return a value as a scalar; the usual one is one."""
    return value if value.dim() == 0 and value.dtype is torch.float32 else value.detach().double().mean()


def _epoch_values(epoch: int, train: dict[str, float], validation: dict[str, float] | None) -> dict[str, float]:
    values = {"epoch": float(epoch), "train/epoch_loss": train["loss"]}
    values |= {f"train/{name}": value for name, value in train.items() if name != "loss"}
    return values | {f"validation/{name}": value for name, value in (validation or {}).items()}


class Reporter(Observer):
    """Reports the position to the heartbeat, and each epoch to the event log."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat, self.process = heartbeat, os.getpid()

    def start(self, session: Session) -> None:
        """Show the position and the plan."""
        self.heartbeat.set(
            step=session.progress.step,
            epoch=session.progress.epoch,
            total_steps=min(session.total_steps, session.step_bound or session.total_steps),
            total_epochs=session.config.training.epochs,
        )

    def step(self, session: Session, result: StepResult) -> None:  # noqa: ARG002 - the moment's form
        """Keep the position; the heartbeat thread writes it."""
        guard.end_copy_of(self.process)
        self.heartbeat.step = result.step

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Log the epoch."""
        self.heartbeat.set(step=result.step, epoch=session.progress.epoch, stage="saving")
        session.run.append_event(
            "epoch",
            epoch=result.epoch,
            step=result.step,
            train=result.train,
            validation=result.validation,
            improved=result.improved,
            seconds=round(result.seconds, 3),
        )

    def stop(self, session: Session, reason: str) -> None:
        """Log that training is over."""
        self.heartbeat.set(stage="saving")
        session.run.append_event("stopping", reason=reason)


class SettingsHeld(Observer):
    """Reads the settings back before anything is recorded or saved of an epoch: the user's code could switch them.

    Raises ReproducibilityError when one was switched.
    """

    def trained(self, session: Session) -> None:
        """Before validation, which could switch them on again."""
        specification = session.specification
        determinism.require_applied(specification.config.reproducibility, specification.exemptions)

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - an observer is given both
        """After validation."""
        self.trained(session)
