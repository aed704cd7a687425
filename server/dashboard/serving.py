"""Serving of the page: in a thread beside an agent's server, or in the foreground for a person."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

import uvicorn

from trainwright.server.dashboard.application import build_application
from trainwright.server.dashboard.guard import HOSTS, Access
from trainwright.server.listening import listening
from trainwright.tools.workspace import Workspace

STOP_SECONDS = 5.0


class Dashboard:
    """A page that is being served over one workspace."""

    def __init__(self, path: Path, port: int = 0) -> None:
        """Take the port (0: any free one), and open the workspace for reading beside others.

        Raises:
            ConflictError: the port is taken.
            StorageError, IntegrityError: the workspace cannot be opened.
        """
        self._socket = listening(HOSTS[0], port)
        self.access = Access(self._socket.getsockname()[1], secrets.token_urlsafe(24))
        try:
            self._workspace = Workspace.open(path)
        except BaseException:
            self._socket.close()
            raise
        application = build_application(self._workspace, self.access, lambda: self._server.should_exit)
        self._server = uvicorn.Server(
            uvicorn.Config(application, log_config=None, access_log=False, timeout_graceful_shutdown=1, lifespan="off")
        )
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until the process is interrupted."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._workspace.close()

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self.run, name="dashboard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
