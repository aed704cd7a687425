"""Places of the trackers' files: all in the workspace's folder `trackers`, none in a run's, which is the worker's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.remote.query import sqlite_url

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.workspace import Workspace


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
