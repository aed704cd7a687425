"""Probe of a run: the range test of learning rates, and where time and memory go.

Smith 2017, "Cyclical Learning Rates for Training Neural Networks", arXiv:1506.01186. The suggestion is the rate at the
smoothed loss's minimum divided by ten; "the steepest descent" proved unreliable where we measured both.
"""

from __future__ import annotations

import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import DivergenceError
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.estimation.duration import after_probe
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.optimization.schedules.schedule import Schedule
from trainwright.trainer.run.results import Bottleneck, Profile, RateTest
from trainwright.trainer.supervision.sampling import allowed_cores

LOWEST, HIGHEST = 1e-7, 10.0
SMOOTHING = 0.9
DIVERGED = 4.0
"""Times the smallest smoothed loss, at which the sweep ends."""


class Sweep(Schedule):
    """A schedule under which the highest rate rises exponentially over the steps."""

    def __init__(self, like: Schedule, peak: float, steps: int) -> None:
        super().__init__(like.section, steps, 0)
        self.peak = peak

    def rate(self, step: int) -> float:
        """Return the highest group's rate at a step (from 0)."""
        return LOWEST * math.pow(HIGHEST / LOWEST, step / max(self.total_steps - 1, 1))

    def factor(self, step: int) -> float:
        """Return the factor on the peak rate."""
        return self.rate(step) / self.peak

    def momentum(self, step: int) -> None:
        """Leave the momentum alone."""


def sweep(session: Session, steps: int) -> RateTest:
    """Train over the range, a step for each rate; return the curve, why it ended, and the suggested rate."""
    peak = max(rate for rates in session.base_rates.values() for rate in rates)
    schedule = Sweep(session.schedule, peak, steps)
    session.schedule = schedule
    points: list[tuple[float, float, float]] = []
    ended, mean, smallest = "the whole range was swept", 0.0, math.inf
    try:
        for number, group in enumerate(endless(session, steps)):
            loss = float(take_step(session, group).loss)
            mean = SMOOTHING * mean + (1 - SMOOTHING) * loss
            smoothed = mean / (1 - SMOOTHING ** (number + 1))
            points.append((schedule.rate(number), loss, smoothed))
            smallest = min(smallest, smoothed)
            if smoothed > DIVERGED * smallest + 1e-12:
                ended = "the loss diverged"
                break
    except DivergenceError:
        ended = "the loss was no number any more"
    return RateTest(steps=len(points), ended=ended, points=points, **suggestion(points))


def suggestion(points: list[tuple[float, float, float]]) -> dict[str, Any]:
    """Return the rate at the minimum divided by ten, or why there is none.

    A loss that never fell says nothing of rates: (first - smallest) must be 2 % of the first at least.
    """
    if len(points) < 10:
        return {"suggested": None, "why": f"only {len(points)} steps before it diverged"}
    rate, _, smallest = min(points, key=lambda point: point[2])
    first = points[0][2]
    if not first - smallest > 0.02 * abs(first):
        return {"suggested": None, "why": "the loss did not fall at any rate: check the data and the model first"}
    return {"suggested": float(f"{rate / 10:.2g}"), "at_minimum": rate, "why": "a tenth of the rate at the minimum"}


def plot(found: RateTest, path: Path, present: float) -> Path:
    """Draw the curve with the suggestion into a PNG."""
    from matplotlib.figure import Figure  # without pyplot: no global state, no display

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    rates, losses, smoothed = zip(*found.points, strict=True)
    axes.plot(rates, losses, color="#56B4E9", alpha=0.5, linewidth=1.0, label="loss of a step")
    axes.plot(rates, smoothed, color="#0072B2", label="smoothed")
    axes.axvline(present, color="#666666", linestyle=":", label=f"configured {present:g}")
    if found.suggested is not None:
        axes.axvline(found.suggested, color="#D55E00", label=f"suggested {found.suggested:g}")
    low, high = min(smoothed), max(smoothed[0], losses[0])
    room = max(0.5 * (high - low), 1e-6)
    axes.set(xscale="log", ylim=(low - room, high + room), xlabel="learning rate", ylabel="training loss")
    axes.set_title("Learning-rate range test")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)
    return path


WARMUP_STEPS = 3
PHASES = ("data", "forward", "backward", "optimizer", "logging", "other")
"""backward includes the gradient's norm and clipping; other is the engine's work between the parts."""


class Stopwatch:
    """Sums the seconds of named phases; each lasts until the next one begins."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.seconds = device, dict.fromkeys(PHASES, 0.0)
        self.phase, self.since = "other", time.perf_counter()

    def enter(self, phase: str) -> None:
        """Begin a phase, once the device has finished the one before."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self.seconds[self.phase] += now - self.since
        self.phase, self.since = phase, now


class TimedObjective:
    """Objective that notifies the stopwatch when its forward and its backward pass begin."""

    def __init__(self, objective: Objective, watch: Stopwatch) -> None:
        self.objective, self.watch = objective, watch

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss as the objective does."""
        self.watch.enter("forward")
        outcome = self.objective(model, batch)
        outcome.loss.register_hook(self._backward)  # type: ignore[no-untyped-call]
        self.watch.enter("other")
        return outcome

    def _backward(self, gradient: Tensor) -> None:  # noqa: ARG002 - the hook's form
        self.watch.enter("backward")

    def count(self, batch: Any) -> int:
        """Return the terms of the batch's mean."""
        return self.objective.count(batch)


def profile(session: Session, recorder: Recorder, steps: int) -> Profile:
    """Take real steps and return seconds by phase, throughput, estimates and the bottleneck."""
    watch = Stopwatch(session.device)
    plain, samples = session.objective, 0
    seconds: list[float] = []
    session.objective = TimedObjective(plain, watch)
    hooks = [
        hook
        for optimizer in session.optimizers.values()
        for hook in (
            optimizer.register_step_pre_hook(lambda *_: watch.enter("optimizer")),
            optimizer.register_step_post_hook(lambda *_: watch.enter("other")),
        )
    ]
    try:
        for number, group in enumerate(endless(session, WARMUP_STEPS + steps)):
            if number == WARMUP_STEPS:
                watch.seconds = dict.fromkeys(PHASES, 0.0)
            watch.enter("other")
            result = take_step(session, group)
            watch.enter("logging")
            recorder.step(session, result)
            watch.enter("data")
            if number >= WARMUP_STEPS:
                seconds.append(sum(watch.seconds.values()) - sum(seconds))
                samples += result.samples
    finally:
        session.objective = plain
        for hook in hooks:
            hook.remove()
    return _report(session, watch.seconds, seconds, samples)


def endless(session: Session, steps: int) -> Any:
    """Yield so many groups of micro-batches, from epoch to epoch as far as is needed."""
    while True:
        taken = 0
        for group in session.groups():
            if steps == 0:
                return
            yield group
            steps, taken = steps - 1, taken + 1
        session.progress.epoch, session.progress.batch = session.progress.epoch + 1, 0
        if not taken:
            return


def _report(session: Session, parts: dict[str, float], seconds: list[float], samples: int) -> Profile:
    from trainwright.trainer.assembly.loaders import steps_per_epoch
    from trainwright.trainer.evidence.run_evidence import peak_memory_bytes

    total, steps = max(sum(parts.values()), 1e-9), max(len(seconds), 1)
    step_seconds = statistics.median(seconds) if seconds else math.nan
    epoch_seconds = step_seconds * steps_per_epoch(session.config, session.train_loader)
    shares = {name: round(100 * value / total, 1) for name, value in parts.items()}
    training = session.config.training
    forward = parts["forward"] / steps / training.accumulation_steps
    validations = len(session.validation_loader) * (training.epochs // training.validate_every_n_epochs)
    run = after_probe(step_seconds, session.total_steps, forward, validations)
    return Profile(
        steps=len(seconds),
        step_ms=round(1e3 * step_seconds, 3),
        phases_ms={name: round(1e3 * value / steps, 3) for name, value in parts.items()},
        phases_percent=shares,
        samples_per_second=round(samples / total, 1),
        peak_memory_bytes=peak_memory_bytes(session.device),
        epoch_seconds=round(epoch_seconds, 2),
        run_seconds=round(run.seconds or 0.0, 2),
        bottleneck=bottleneck(session, shares),
    )


def bottleneck(session: Session, shares: dict[str, float]) -> Bottleneck:
    """Return the part that is worth shortening, why, and the changes that would."""
    config = session.config
    if shares["data"] > 20:
        workers = max(1, min(int(allowed_cores()) - 1, 8))
        more: dict[str, Any] = {"loader.num_workers": workers, "loader.persistent_workers": True}
        why = "the loop waits for batches; fetch them in worker processes"
        if config.loader.num_workers >= workers:
            more, why = {}, "the loop waits for batches although workers fetch them: make a sample cheaper to load"
        return Bottleneck(phase="data", percent=shares["data"], why=why, changes=more)
    if shares["logging"] > 5:
        less = {"logging.every_n_steps": config.logging.every_n_steps * 5}
        why = "recording takes its share; read the values less often"
        return Bottleneck(phase="logging", percent=shares["logging"], why=why, changes=less)
    if shares["optimizer"] > 35:
        why = "the update is large beside the batch; a larger batch makes fewer of them"
        return Bottleneck(phase="optimizer", percent=shares["optimizer"], why=why, changes={})
    phase = max(("forward", "backward", "other"), key=lambda name: shares[name])
    changes: dict[str, Any] = {}
    if session.device.type == "cuda" and config.training.precision == "fp32":
        changes = {"training.precision": "bf16"}
    why = "the model itself is the work" + ("; compute it in bf16" if changes else "")
    return Bottleneck(phase=phase, percent=shares[phase], why=why, changes=changes)
