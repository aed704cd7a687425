"""Tracing: PyTorch's profiler over a few steps, on request, as a file that TensorBoard's and Perfetto's pages open."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.seeding import preserved
from trainwright.trainer.engine.observers.observer import Observer, StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run.results import Trace

FOLDER = "trace"
PASSED_STEPS = 2
"""First steps that are left out: they allocate, and choose kernels. One more is traced and thrown away."""
MAX_BYTES = 100 * 2**20
MAX_OPERATIONS = 20


class Tracing(Observer):
    """Traces a few steps of an attempt. What the profiler cannot do is reported, and the run goes on."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.profiler: Any = None
        self.session: Session | None = None
        self.left = 0
        self.last_step = 0

    def start(self, session: Session) -> None:
        """Begin: the profiler passes over the first steps by itself."""
        self.session = session
        activities = [torch.profiler.ProfilerActivity.CPU]
        if session.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        schedule = torch.profiler.schedule(wait=PASSED_STEPS, warmup=1, active=self.steps, repeat=1)
        self.left = PASSED_STEPS + 1 + self.steps
        self._guarded(session, lambda: self._begin(activities, schedule))

    def step(self, session: Session, result: StepResult) -> None:
        """Tell the profiler that a step is over, and end with the last one."""
        if self.profiler is None:
            return
        self.left, self.last_step = self.left - 1, result.step
        self._guarded(session, self.profiler.step)
        if self.left == 0:
            self._guarded(session, lambda: self._end(session))

    def stop(self, session: Session, reason: str) -> None:  # noqa: ARG002 - the moment's form
        """Write what there is of a run that was shorter."""
        if self.profiler is not None:
            self._guarded(session, lambda: self._end(session))

    def close(self) -> None:
        """Let the profiler go, after an error too."""
        profiler, self.profiler = self.profiler, None
        if profiler is not None and self.session is not None:
            with suppress(OSError, TrainwrightError):  # of the note: the run's error must not be hidden by it
                self._guarded(self.session, profiler.stop)

    def _begin(self, activities: list[Any], schedule: Any) -> None:
        self.profiler = torch.profiler.profile(activities=activities, schedule=schedule)
        self.profiler.start()

    def _end(self, session: Session) -> None:
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        traced = self.steps - max(self.left, 0)
        if traced <= 0:
            session.run.append_event("note", text=f"No step was traced: the run has fewer than {PASSED_STEPS + 2}.")
            return
        folder = session.run.path / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"step-{self.last_step:08d}.pt.trace.json.gz"
        profiler.export_chrome_trace(str(path))
        session.run.write_evidence(_trace(profiler, path, session.run.path, traced))

    def _guarded(self, session: Session, act: Any) -> None:
        try:
            with preserved():
                act()
        except Exception as error:  # noqa: BLE001 - a profiler's error must not end the run
            self.profiler = None
            session.run.append_event("note", text=f"Tracing ended: {type(error).__name__}: {error}"[:500])


def _trace(profiler: Any, path: Path, run: Path, steps: int) -> Trace:
    """Describe a trace; one that is too large is not kept."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        path.unlink()
    events = sorted(profiler.key_averages(), key=_self_time, reverse=True)[:MAX_OPERATIONS]
    return Trace(
        steps=steps,
        path=path.relative_to(run).as_posix() if size <= MAX_BYTES else None,
        bytes=size,
        operations=[
            {"name": event.key, "calls": event.count, "self_ms": round(_self_time(event) / 1e3, 3)} for event in events
        ],
    )


def _self_time(event: Any) -> float:
    """Return microseconds in the operation itself: on the device where it worked there."""
    return float(event.self_device_time_total or event.self_cpu_time_total)
