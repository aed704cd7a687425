"""Watch of a run: inspects a few steps, and at all others compares two numbers.

The hooks of an inspected step are put in place when the step before it is over, and taken away with it. So the engine's
loop, the user's train_step and other libraries' trainers are inspected alike, and a step between is as if nobody
watched. What this process holds is measured: of divided parameters the first process's part.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.watch.alerts import Alerts
from trainwright.trainer.watch.inspector import MAX_ROWS, Finding, Inspector, Look, read_scalars
from trainwright.trainer.watch.inspectors import INSPECTORS
from trainwright.trainer.watch.schedule import Schedule
from trainwright.trainer.watch.silent.steps_check import Rates

FIRST_EPOCHS = 2
"""The first step after each of them is inspected: what validation left behind shows there, and what repeats."""
MAX_FINDINGS = 20
"""Events of one id: the first ones."""


class Watch(Observer):
    """Comes before the recorder, so that the numbers of a step are written with it."""

    def __init__(self, session: Session, recorder: Recorder, alerts: Alerts) -> None:
        self.recorder, self.alerts = recorder, alerts
        self.inspectors = [make(session) for make in INSPECTORS]
        self.schedule = Schedule(session.progress.step)
        self.look: Look | None = None
        """The step that is inspected now."""
        self.is_due = False
        """Whether the next epoch's first step is inspected."""
        self.found: dict[str, list[tuple[Any, ...]]] = {}

    def start(self, session: Session) -> None:
        """Know what earlier attempts have found, and inspect the first step."""
        for event in session.run.events("finding"):
            layers, rows = event.data.get("layers") or (), event.data.get("rows") or ()
            self.found.setdefault(str(event.data.get("id")), []).append((*layers, *rows))
        self.schedule = Schedule(session.progress.step)
        self._say_unjudged(session)
        self._arm(session)

    def _say_unjudged(self, session: Session) -> None:
        said = {event.data.get("text") for event in session.run.events("unjudged")}
        sentences = [text for inspector in self.inspectors for text in inspector.unjudged()]
        for text in [*sentences, *_beyond_reach(session)]:
            if text not in said:
                session.run.append_event("unjudged", text=text)

    def step(self, session: Session, result: StepResult) -> None:
        """End an inspection, and begin one where the next step is due."""
        if self.look is not None:
            self._end(session, self.look, result)
        if self.schedule.is_due(result.step + 1):
            self._arm(session)

    def trained(self, session: Session) -> None:  # noqa: ARG002 - the moment's form
        """Validation is not inspected: what is due waits for the next epoch."""
        self.is_due = self.look is not None
        self._disarm()

    def epoch(self, session: Session, result: EpochResult) -> None:
        """Let the inspectors look at the epoch."""
        look = Look(session, result.step, result.epoch - 1, 0)
        self._each(look, lambda inspector: inspector.epoch(look, result))
        self.report(session, look)
        if (self.is_due or result.epoch <= FIRST_EPOCHS) and not session.at_bound:
            self._arm(session)

    def close(self) -> None:
        """Take hooks away that are still in place."""
        self._disarm()

    def _arm(self, session: Session) -> None:
        self.schedule.arm()
        progress = session.progress
        self.look = look = Look(session, progress.step + 1, progress.epoch, progress.batch)
        with look.timed():
            for optimizer in session.optimizers.values():
                if isinstance(optimizer, Optimizer):
                    look.hooks += self._around_update(session, look, optimizer)
        self._each(look, lambda inspector: inspector.begin(look))

    def _around_update(self, session: Session, look: Look, optimizer: Optimizer) -> list[Any]:
        @torch.no_grad()
        def before(stepped: Optimizer, args: Any, kwargs: Any) -> None:
            # a closure of the user's or of Lightning measures inside the step: the gradients here are older ones
            theirs = session.work.framework is not None or session.rule.is_users
            look.is_early = theirs and (len(args) > 1 or kwargs.get("closure") is not None)
            self._each(look, lambda inspector: inspector.before_update(look, stepped))

        @torch.no_grad()
        def after(stepped: Optimizer, _args: Any, _kwargs: Any) -> None:
            self._each(look, lambda inspector: inspector.after_update(look, stepped))

        return [optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)]

    def _end(self, session: Session, look: Look, result: StepResult) -> None:
        self._disarm()
        self._each(look, lambda inspector: inspector.end(look, result))
        with look.timed():
            values = self._numbers(look)
        look.values = {**values}
        self._each(look, lambda inspector: inspector.judge(look, values))
        with look.timed():
            self.report(session, look)
        self.schedule.note(result.step, look.seconds)

    def _each(self, look: Look, moment: Callable[[Inspector], None]) -> None:
        """Call the inspectors. One that fails is left out from now on: the run goes on."""
        failed = {id(owner): error for owner, error in look.errors}
        with look.timed(), torch.no_grad():
            for inspector in [*self.inspectors]:
                look.present = inspector
                try:
                    if (error := failed.get(id(inspector))) is not None:
                        raise error
                    moment(inspector)
                except Exception as error:  # noqa: BLE001 - whatever it is, the run is not to end by being watched
                    self._drop(look, [inspector], error)

    def _numbers(self, look: Look) -> dict[str, float]:
        """Read what the step has measured; where the device cannot, nothing is inspected from now on."""
        try:
            return read(look.values)
        except Exception as error:  # noqa: BLE001 - as an inspector's
            self._drop(look, [*self.inspectors], error)
            return {}

    def _drop(self, look: Look, inspectors: list[Inspector], error: Exception) -> None:
        for inspector in inspectors:
            self.inspectors.remove(inspector)
        names = ", ".join(type(inspector).__name__ for inspector in inspectors)
        text = f"{names}: it failed at step {look.step}, {type(error).__name__}: {error}"
        look.session.run.append_event("unjudged", text=text[:500])

    def _disarm(self) -> None:
        look, self.look = self.look, None
        for hook in look.hooks if look is not None else ():
            hook.remove()

    def report(self, session: Session, look: Look) -> None:
        """Record the numbers of a step, and each finding once."""
        if look.values:
            self.recorder.add_measured(self._numbers(look), look.step)
        for finding in look.findings:
            known = self.found.setdefault(finding.id, [])
            key = (*finding.layers, *finding.rows)
            if key not in known and len(known) < MAX_FINDINGS:
                known.append(key)
                event = {**asdict(finding), "step": look.step, "epoch": look.epoch + 1}
                session.run.append_event("finding", **event)
                self.alerts.found(event)


def _beyond_reach(session: Session) -> list[str]:
    """Say what of a run's way of training the hooks do not see."""
    found = []
    strategy = session.config.distributed.strategy if session.config.distributed.processes > 1 else None
    if strategy == "deepspeed":
        found.append("layers: DeepSpeed updates flat copies of the parameters")
    elif strategy == "fsdp2":
        found.append("layers of other processes: norms are those of the first process's part of each parameter")
    if session.work.framework is not None:
        found.append("gradients before clipping: a trainer of another library clips them before they are seen")
    return found


def watching(session: Session, recorder: Recorder) -> tuple[list[Observer], list[Observer]]:
    """Return the observers that come before the recorder, and after it; of several processes the first watches."""
    if not session.strategy.is_first:
        return [], []
    alerts = Alerts(session, recorder)
    if not session.specification.inspects:
        return [], [alerts]
    watch = Watch(session, recorder, alerts)
    return [watch], [EveryStep(session, recorder, watch.report), alerts]


def read(values: dict[str, Tensor | float]) -> dict[str, float]:
    """Return scalars as numbers, read from each device in one transfer."""
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    found = read_scalars([each.detach().float().reshape(()) for each in tensors.values()])  # MPS has no double
    plain = {name: float(value) for name, value in values.items() if not isinstance(value, Tensor)}
    return plain | dict(zip(tensors, found, strict=True))


# Watch of every step, by numbers that are there anyway: the learning rate, and the losses once they have been read.

WINDOW, LEAST = 64, 16
"""Losses that a new one is compared with: at most, and at least."""
SPIKE = 8.0
"""Deviations (of the median absolute one) above the median, from which on a loss is a spike."""
TIMES = 2.0
"""The median, that it exceeds too: where losses hardly vary, little is many deviations."""
MAX_STEPS = 4096
MAX_SPIKES = 10


class EveryStep(Observer):
    """Reports a learning rate that is gone, and the rows behind a loss that jumps."""

    def __init__(self, session: Session, recorder: Recorder, report: Callable[[Session, Look], None]) -> None:
        self.report = report
        self.rates = Rates(session.total_steps)
        self.losses: deque[float] = deque(maxlen=WINDOW)
        self.places: deque[tuple[int, int, int, int]] = deque(maxlen=MAX_STEPS)
        """Of the newest steps: number, epoch, first batch, number of batches."""
        self.ordered: list[float] = []
        """The same losses by size, kept in order: to sort them at each step would cost more."""
        self.reported = 0
        self.is_reported = not (session.rule.is_users or session.work.framework is not None)
        """Of the rates; those of the configuration's schedule are meant."""
        self.recorder = recorder

    def step(self, session: Session, result: StepResult) -> None:
        """Compare the rate, and report what was found in the losses that have been read."""
        self.places.append((result.step, result.epoch, result.batch, result.micro_batches))
        found = None if self.is_reported else self.rates.note(result.step, result.learning_rate)
        if found is not None:
            self.is_reported = True
            self._tell(session, (result.step, result.epoch, result.batch, 1), found)
        if self.recorder.losses and self.reported < MAX_SPIKES:
            self._read(session)

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - the moment's form
        """Report what was found in the losses of the epoch."""
        self._read(session)

    def _read(self, session: Session) -> None:
        for step, loss, usual in self._spikes():
            if self.reported == MAX_SPIKES:
                continue
            if (place := next((each for each in self.places if each[0] == step), None)) is not None:
                self.reported += 1
                self._tell(session, place, self._spike(session, place, loss, usual))

    def _spikes(self) -> list[tuple[int, float, float]]:
        """Return step, loss and usual loss of the spikes among the losses that the recorder has read since."""
        found, taken = [], self.recorder.losses
        while taken:
            step, value = taken.popleft()
            if len(self.losses) >= LEAST:
                usual = _middle(self.ordered)
                if value > TIMES * abs(usual) and value > usual + SPIKE * self._spread(usual):
                    found.append((step, value, usual))
            self._keep(value)
        return found

    def _keep(self, value: float) -> None:
        if len(self.losses) == WINDOW:
            del self.ordered[bisect.bisect_left(self.ordered, self.losses[0])]
        self.losses.append(value)
        bisect.insort(self.ordered, value)

    def _spread(self, usual: float) -> float:
        return _middle(sorted(abs(each - usual) for each in self.losses))

    def _spike(self, session: Session, place: tuple[int, int, int, int], loss: float, usual: float) -> Finding:
        _, epoch, batch, count = place
        rows = [row for number in range(batch, batch + count) for row in session.train_loader.indices(epoch, number)]
        detail = f"the loss of one step was {loss:.4g}, where {usual:.4g} was usual; {len(rows)} rows were in it"
        return Finding("loss_spike", loss / max(abs(usual), 1e-12), rows=tuple(rows[:MAX_ROWS]), detail=detail)

    def _tell(self, session: Session, place: tuple[int, int, int, int], finding: Finding) -> None:
        step, epoch, batch, _ = place
        self.report(session, Look(session, step, epoch, batch, findings=[finding]))


def _middle(ordered: list[float]) -> float:
    """Return the median of numbers in order."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
