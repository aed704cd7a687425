"""Heartbeat of a worker, its limits, and the bytes reserved for a full disk."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import LimitReachedError, TrainwrightError, UserCodeError
from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.run import Failure, ProcessIdentity, RunDirectory, RunSpecification, RunState, RunStatus
from trainwright.trainer.run.conditions import requested_alert_stop
from trainwright.trainer.supervision.stop import StopRequest
from trainwright.trainer.user_code.clock import clock
from trainwright.trainer.user_code.guard import exit_now, innermost_of_user, user_frames

BYTES = 64 * 1024


class Ballast:
    """A file of real bytes in the run directory, removed before the last record is written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".ballast"

    def hold(self) -> None:
        """Take the space. Raises StorageError when there is none: better now than after an hour of training."""
        try:
            self.path.write_bytes(bytes(BYTES))
        except OSError as error:
            raise known_failure(error) or error from error

    def drop(self) -> None:
        """Give the space back."""
        self.path.unlink(missing_ok=True)


INTERVAL_SECONDS = 0.5
GRACE_SECONDS = 10.0
DISK_CHECK_SECONDS = 5.0
PATIENCE_SECONDS = 3.0
"""Time that the main thread has to end in order after a stop was requested; then its processes are ended."""
SAVING_SECONDS = 60.0
"""The same while it writes the stop's checkpoint, or where single steps are slow."""


class Heartbeat:
    """Owns status.json: the main thread sets values, the thread writes them every half second."""

    def __init__(
        self,
        run: RunDirectory,
        specification: RunSpecification,
        attempt: int,
        stop: StopRequest,
        *,
        process: ProcessIdentity | None = None,
    ) -> None:
        worked_seconds = run.seconds_worked()  # by earlier attempts: the limit is the run's, not the attempt's
        self.run, self.limits, self.stop_request = run, run.limits(), stop
        self.code_root = Path(specification.code_root)
        self.gpus = 0
        """Devices that the run works on, set once they are known: GPU hours count them."""
        self.step = 0
        """Set by the loop; a plain attribute, so that a step costs nothing."""
        self._status = RunStatus(
            state=RunState.STARTING,
            attempt=attempt,
            started_at=time.time(),
            process=process or ProcessIdentity.current(),  # the one to signal: the leader of a group
        )
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._holds_user_code = False
        self._asked_at: float | None = None
        """When a limit was reached."""
        self._requested_at: float | None = None
        self._slowest_step_seconds = 0.0
        self._disk_at = time.monotonic()
        self._began = self._disk_at - worked_seconds
        self._stepped = 0, self._disk_at
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    @property
    def pid(self) -> int:
        """This worker's process id."""
        return os.getpid()

    def start(self) -> None:
        """Write the first status and begin to beat."""
        self._write()
        self._thread.start()

    def set(self, **values: Any) -> None:
        """Change the status: written at the next beat, a new stage at once, for it may end in a crash.

        Raises:
            StorageError: the record of a new stage could not be written.
        """
        before = self._status.stage
        self._update(values)
        if values.get("stage", before) != before and not self._done.is_set():
            self._write(self.run.write_passing_status)  # three an epoch: waiting for the disk would take longer

    def stage(self, stage: str) -> None:
        """Report the worker's present activity."""
        self.set(stage=stage)

    def begin_user_code(self) -> None:
        """Apply limits.user_code_seconds to the user's code from here on, to all its parts together."""
        clock.restart()
        self._holds_user_code = True

    def end_user_code(self) -> None:
        """End that limit: training has the run's limits."""
        self._holds_user_code = False

    def end(self, state: RunState, *, stop_reason: str | None = None, failure: Failure | None = None) -> None:
        """Stop beating and write the last records: the event, and the status. Raises StorageError."""
        self._done.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        try:
            self.run.append_event("ended", state=state.value, stop_reason=stop_reason)
        except OSError as full:
            sys.stderr.write(f"events.jsonl: {full}\n")
        self._update({"state": state, "stage": "", "stop_reason": stop_reason, "failure": failure})
        self._write(self.run.write_last_status)

    def _update(self, values: dict[str, Any]) -> None:
        with self._lock:
            if "step" in values:
                self.step = values["step"]
            self._status = self._status.model_copy(update=values)

    def _write(self, write: Callable[[RunStatus], None] | None = None) -> None:
        with self._lock:
            self._status = self._status.model_copy(update={"step": self.step, "heartbeat_at": time.time()})
            (write or self.run.write_status)(self._status)

    def _beat(self) -> None:
        while not self._done.wait(INTERVAL_SECONDS):
            try:
                self._write()
            except TrainwrightError as error:  # a full disk: the main thread will meet it too
                sys.stderr.write(f"heartbeat: {error}\n")
            self._enforce(time.monotonic())

    def _enforce(self, now: float) -> None:
        self._time_steps(now)
        limits = self.limits
        if self._holds_user_code:
            overrun = overrun_of_user_code(limits.user_code_seconds, self.code_root)
            if overrun is not None:
                self._kill(overrun[0])
        self._hear_stop(now)
        reached = limits.reached(now - self._began, self.gpus)
        if reached is not None:
            self._ask(reached, now)
        if now - self._disk_at > DISK_CHECK_SECONDS:
            self._disk_at = now
            if folder_bytes(self.run.path) > limits.disk_bytes:
                self._ask("disk_limit", now)
        if self._asked_at is not None and now - self._asked_at > GRACE_SECONDS:
            self._kill(
                LimitReachedError(
                    f"The run reached its limit ({self.stop_request.reason}) and did not stop within "
                    f"{GRACE_SECONDS:g} s.",
                    remedy="The last checkpoint is kept. Shorten single steps, or ask the owner to raise the limit.",
                    details={"limit": self.stop_request.reason, "limits": limits.model_dump()},
                )
            )

    def _hear_stop(self, now: float) -> None:
        """Enforce a requested stop: remind the main thread, and end all processes of the run if it does not react.

        Only progress since the last checkpoint is lost; the run is then interrupted, and its reason is written.
        A stop for an alert has time: the loop makes it at the next step, and nothing is ended by force.
        """
        if (request := requested_alert_stop(self.run, self._status.attempt)) is not None:
            self.stop_request.ask(request.reason)
        if self.stop_request.is_written:  # the signal was taken over, or came from another machine as a file alone
            self.stop_request.ask("requested")
        if not self.stop_request.is_requested:
            return
        self._requested_at = self._requested_at or now
        if now - self._requested_at > self._patience_seconds():
            sys.stderr.write(f"heartbeat: asked to stop, and not heard while {self._status.stage}: ending the group\n")
            assert self._status.process is not None  # noqa: S101 - set when this was made
            self._status.process.kill_tree()
        self.stop_request.remind()

    def _patience_seconds(self) -> float:
        """Return how long the main thread has for an orderly end: longer where it saves, or takes slow steps."""
        if self._status.stage == "saving":
            return SAVING_SECONDS
        steps = 2 * self._slowest_step_seconds if self._status.stage == "training" else 0.0
        return min(max(PATIENCE_SECONDS, steps), SAVING_SECONDS)

    def _time_steps(self, now: float) -> None:
        step, since = self._stepped
        if self.step != step:
            seconds = (now - since) / max(self.step - step, 1)
            self._slowest_step_seconds = max(self._slowest_step_seconds, seconds if step else 0.0)
            self._stepped = self.step, now

    def _ask(self, reason: str, now: float) -> None:
        if self._asked_at is None:
            self._asked_at = now
            self.stop_request.ask(reason)

    def _kill(self, error: TrainwrightError) -> None:
        """Write the last record from this thread, with the main thread's position, and end the process."""
        if self._done.is_set():
            return
        shown = user_frames(_frames(), self.code_root)
        self._done.set()
        try:
            failure = Failure(**error.as_dict(), traceback=shown)
            self.run.append_event("failed", **error.as_dict())
            self.end(RunState.FAILED, failure=failure)
        finally:
            exit_now(1)


def overrun_of_user_code(limit_seconds: float, code_root: Path) -> tuple[UserCodeError, str | None] | None:
    """Return the error of user code that takes longer than it may, with its frames as text; None while it does not.

    It names the user's function in which the main thread is: ` in load (data.py, line 12)`.
    """
    overrun = clock.overrun(limit_seconds)
    if overrun is None:
        return None
    frames = _frames()
    frame = innermost_of_user(frames, code_root)
    place = "" if frame is None else f", in {frame.name} ({Path(frame.filename).name}, line {frame.lineno})"
    error = UserCodeError(
        f"{overrun}{place}: importing and building may take {limit_seconds:g} s.",
        remedy="Move training, downloads and other long work out of import and build; the traceback shows "
        "where it hangs. The owner's settings hold the limit.",
        details={"limit": "user_code_seconds", "limit_seconds": limit_seconds},
    )
    return error, user_frames(frames, code_root)


def _frames() -> list[traceback.FrameSummary]:
    """Return where the main thread is."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return [] if frame is None else list(traceback.extract_stack(frame))


def folder_bytes(path: Path) -> int:
    """Return the bytes of all files under a folder; files that vanish meanwhile count nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 - many files, often
            except OSError:
                continue
    return total
