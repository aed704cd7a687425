"""Tracker: the interface of a program that shows runs, fed from their recorded files and never by a run's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainwright.tools.tracking.card import RunCard
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import Event
    from trainwright.trainer.run.histograms import Histogram


class Row(NamedTuple):
    """One recorded number."""

    key: str
    step: int
    value: float
    time: float
    """Unix seconds."""


class TrackedRun(Protocol):
    """One run as a tracker shows it. Each method may raise any error, and is then called again later."""

    def log(self, rows: Sequence[Row]) -> None:
        """Show numbers; some may have been shown before an error."""

    def histograms(self, histograms: Sequence[Histogram]) -> None:
        """Show how weights and gradients were distributed; nothing where the tracker has no such form."""

    def alert(self, alerts: Sequence[Event]) -> None:
        """Show alerts and findings."""

    def finish(self, card: RunCard, artifacts: dict[str, Path]) -> None:
        """Show the whole card, and files by name; called once for each attempt that has ended."""

    def close(self) -> None:
        """Let the run go, without ending it there."""


class Tracker(Protocol):
    """One program that shows runs."""

    def __init__(self, workspace: Workspace) -> None:
        """Prepare to write where the owner's settings and the environment say."""

    def run(self, card: RunCard) -> TrackedRun:
        """Return a run as it is shown: made at first, found again afterwards."""
