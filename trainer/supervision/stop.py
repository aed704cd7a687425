"""Stop request: while training checked between steps, before and after that obeyed at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from trainwright.trainer import checkpoints, run, supervision

_RECORDING = tuple(f"{package.__path__[0]}{os.sep}" for package in (run, supervision, checkpoints))
"""Code that must not be interrupted: its files are digested and signed. As frames name it, through links."""


class Abandoned(BaseException):
    """Raised in the main thread where a stop was requested and there is nothing to save."""


class StopRequest:
    """Set by a signal or the heartbeat thread.

    Inside `between_steps` the loop ends at the next step boundary. Anywhere else a request raises Abandoned in the
    main thread, wherever that is: importing, building, reading data, probing, exporting.
    """

    def __init__(self, reason_file: Path) -> None:
        self._reason_file = reason_file
        self._event = threading.Event()
        self._reason = "requested"
        self._raises = False

    def ask(self, reason: str) -> None:
        """Ask for an orderly end; the first reason counts."""
        if not self._event.is_set():
            self._reason = reason
            self._event.set()

    @property
    def is_written(self) -> bool:
        """Whether a reason to stop is in the run directory."""
        return self._reason_file.exists()

    @property
    def asked(self) -> bool:
        """Whether the run is to end."""
        return self._event.is_set()

    @property
    def is_requested(self) -> bool:
        """Whether someone requested the end, rather than a limit."""
        return self.asked and self._reason == "requested"

    @property
    def reason(self) -> str:
        """Why: for a request from outside, the text of the file `stop_reason` where there is one."""
        if self._reason == "requested" and self._reason_file.exists():
            return self._reason_file.read_text(errors="replace").strip()[:200] or "requested"
        return self._reason

    def listen(self) -> None:
        """Take SIGTERM (and SIGINT) as a request; to be repeated after user code, which may have taken them over."""
        self._raises = True
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def hear_nothing_more(self) -> None:
        """Raise nothing from now on: the last record is being written."""
        self._raises = False

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Let the loop inside the context check whether the run is to end."""
        self._raises = False
        yield
        self._raises = not self.asked  # otherwise the rest of the orderly end is still to be written

    def remind(self) -> None:
        """Signal the main thread once more, from another one, where the request has to be raised there."""
        main = threading.main_thread().ident
        if self._raises and main is not None and signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.pthread_kill(main, signal.SIGTERM)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        self.ask("requested")
        if self._raises and not _is_recording(frame):
            self._raises = False
            raise Abandoned


def _is_recording(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_RECORDING):
            return True
        frame = frame.f_back
    return False
