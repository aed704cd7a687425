"""Application context of one server: its workspace, opened late and kept open, with the owner's present settings."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

WARM_UP_AFTER_SECONDS = 0.5
OPERATIONS = (
    "trainwright.tools.projects",
    "trainwright.tools.hyperparameter_tuner",
    "trainwright.tools.checkpoint_manager",
)


class AppContext:
    """Context that all tool calls share: the workspace, opened at the first call that needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._workspace: Workspace | None = None
        self._warm_up: threading.Timer | None = None
        self._log: logging.Handler | None = None

    def workspace(self) -> Workspace:
        """Return the open workspace with the owner's settings as they are now. Raises TrainwrightError."""
        from trainwright.tools.checkpoint_manager import finish_pruning
        from trainwright.tools.ledger import copy_all_forward
        from trainwright.tools.owner import record_settings_grants
        from trainwright.tools.projects import finish_deletions, finish_provenance
        from trainwright.tools.training_orchestrator import put_back_all, remove_abandoned
        from trainwright.tools.workspace import Workspace

        with self._lock:
            if self._workspace is None:
                self._workspace = Workspace.open(self.path)
                if self._workspace.is_archived:  # nothing is finished there, and nothing logged
                    return self._workspace
                self._log = _log_to(self._workspace.path / "logs" / "server.log")
                copy_all_forward(self._workspace)
                remove_abandoned(self._workspace)
                put_back_all(self._workspace)
                finish_provenance(self._workspace)
                finish_deletions(self._workspace)
                finish_pruning(self._workspace)
            workspace = self._workspace.refreshed()
            return workspace if workspace.is_archived else record_settings_grants(workspace)

    def with_handles(self, value: Any) -> Any:
        """Return JSON values with every long id of a run or study replaced by its handle."""
        from trainwright.tools.workspace.handles import LONG_ID, handles, with_handles

        texts = list(_texts(value))
        if self._workspace is None or not any(LONG_ID.search(text) for text in texts):
            return value
        with self._workspace.snapshot() as session:
            return with_handles(value, handles(session, texts))

    def begin(self) -> None:
        """Import the operations in the background, soon after the first requests of a client have been answered.

        A second of imports is thus paid while the agent thinks, and not by its first call.
        """
        self._warm_up = threading.Timer(WARM_UP_AFTER_SECONDS, self._import_operations)
        self._warm_up.daemon = True
        self._warm_up.start()

    def _import_operations(self) -> None:
        with self._lock:  # a call that comes now waits, rather than importing the same modules concurrently
            for name in OPERATIONS:
                importlib.import_module(name)

    def close(self) -> None:
        """Close the workspace's database and the log file."""
        if self._warm_up is not None:
            self._warm_up.cancel()
        with self._lock:
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None
            if self._log is not None:
                logging.getLogger("trainwright").removeHandler(self._log)
                self._log.close()
                self._log = None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(item)


def workspace_of(context: Context[Any, Any]) -> Workspace:
    """Return the workspace of the server that handles the call."""
    app: AppContext = context.request_context.lifespan_context
    return app.workspace()


def _log_to(path: Path) -> logging.Handler | None:
    """Send the server's log lines to the file, once per file. Returns None if that is already done."""
    logger = logging.getLogger("trainwright")
    if any(getattr(handler, "baseFilename", None) == str(path) for handler in logger.handlers):
        return None
    path.parent.mkdir(exist_ok=True)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s pid=%(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    return handler
