"""A request to stop, looked at between steps."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType


class StopRequest:
    """Set by a signal or the heartbeat thread; the loop ends at the next step boundary."""

    def __init__(self, reason_file: Path) -> None:
        self._reason_file = reason_file
        self._event = threading.Event()
        self._reason = "requested"

    def ask(self, reason: str) -> None:
        """Ask for an orderly end; the first reason counts."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()

    @property
    def is_written(self) -> bool:
        """Whether a reason to stop stands in the run directory."""
        return self._reason_file.exists()

    @property
    def asked(self) -> bool:
        """Whether the run is to end."""
        return self._event.is_set()

    @property
    def reason(self) -> str:
        """Why: for a request from outside, the text of the file `stop_reason` where there is one."""
        if self._reason == "requested" and self._reason_file.exists():
            return self._reason_file.read_text(errors="replace").strip()[:200] or "requested"
        return self._reason

    def listen(self) -> None:
        """Take SIGTERM (and SIGINT) as a request; to be repeated after user code, which may have taken them over."""

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self.ask("requested")

        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
