"""Trackers: programs that show a run's numbers while it trains, one file each. Nothing depends on their output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from trainwright.trainer.base.seeding import preserved  # late: the list of trackers is read without torch
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.trackers.tensorboard import TensorBoard
from trainwright.trainer.run import Event, RunDirectory
from trainwright.trainer.run.tail import AlertTail


class Tracker(Protocol):
    """One program that shows numbers: started once for each attempt of a run. It may raise any error."""

    def start(self, run: RunDirectory, config: TrainingConfig) -> None:
        """Open its resources. In the run directory it may write only into a folder of its own name."""

    def log(self, values: Mapping[str, float], step: int, time: float) -> None:
        """Show values at an optimizer step and a moment (Unix seconds). A resumed run repeats steps."""

    def alert(self, event: Event) -> None:
        """Show an alert or a finding of the monitor."""

    def close(self) -> None:
        """Write the remaining values. Called also after an attempt that failed."""


class Trackers:
    """The trackers of a run. One that fails is reported once and left out; none draws from the run's generators."""

    def __init__(self, run: RunDirectory, config: TrainingConfig, trackers: Mapping[str, Tracker]) -> None:
        self._run = run
        self._trackers = dict(trackers)
        self._alerts = AlertTail(run)
        self._each(lambda tracker: tracker.start(run, config))

    def log(self, shown: list[tuple[dict[str, float], int, float]]) -> None:
        """Show values with their steps and moments."""

        def show(tracker: Tracker) -> None:
            for values, step, moment in shown:
                tracker.log(values, step, moment)

        if shown:
            self._each(show)
        self._show_alerts()

    def close(self) -> None:
        """Close them all."""
        self._show_alerts()
        self._each(lambda tracker: tracker.close())
        self._trackers.clear()

    def _show_alerts(self) -> None:
        for event in self._alerts.new() if self._trackers else []:
            self._each(partial(_alert, event))

    def _each(self, act: Callable[[Tracker], None]) -> None:
        for name, tracker in [*self._trackers.items()]:
            try:
                with preserved():
                    act(tracker)
            except Exception as error:  # noqa: BLE001 - a library's error must not end the run
                del self._trackers[name]
                text = f"The tracker {name} failed and gets nothing more: {type(error).__name__}: {error}"
                self._run.append_event("note", text=text[:500])


def _alert(event: Event, tracker: Tracker) -> None:
    tracker.alert(event)


TRACKERS: dict[str, Callable[[], Tracker]] = {"tensorboard": TensorBoard}
"""By the key of `logging` that switches each on."""


def trackers_of(session: Session) -> Trackers:
    """Start the trackers that the configuration asks for, in the process that writes for all."""
    asked = session.config.logging.model_dump()
    chosen = {name: make() for name, make in TRACKERS.items() if session.strategy.is_first and asked[name]}
    return Trackers(session.run, session.config, chosen)
