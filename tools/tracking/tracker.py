"""Tracker: the interface of a program that shows runs, fed from their recorded files and never by a run's process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from trainwright.tools.tracking.card import RunCard
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.remote.query import sqlite_url
from trainwright.trainer.run import Event


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


# Places of the trackers' files: all in the workspace's folder `trackers`, none in a run's, which is the worker's.


def folder_of(workspace: Workspace, tracker: str) -> Path:
    """Return the folder of one tracker; it need not exist."""
    return workspace.path / "trackers" / tracker


def mlflow_uri(workspace: Workspace, environment: dict[str, str]) -> str:
    """Return where MLflow's runs go: the owner's server, the environment's, or the workspace's own database.

    Raises:
        ConfigurationError: the address holds a password.
    """
    uri = workspace.settings.mlflow_uri or environment.get("MLFLOW_TRACKING_URI") or mlflow_database(workspace)
    if "@" in uri.partition("://")[2].partition("/")[0]:
        raise ConfigurationError(
            "The address of the MLflow server holds a user or password, which would be written into files.",
            remedy="Give the address alone; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD for the server.",
            document="configs/trackers.md",
        )
    return uri


def mlflow_database(workspace: Workspace) -> str:
    """Return the address of the workspace's own MLflow database."""
    return sqlite_url(folder_of(workspace, "mlflow") / "mlflow.db").render_as_string(hide_password=False)
