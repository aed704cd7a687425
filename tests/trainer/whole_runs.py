"""Whole runs in a test's own process: the engine's loop with its records and checkpoints, halted anywhere and resumed.

What a killed process leaves on a disk is shown by real kills (engine/test_exact_resume.py). What a resume must bring
back is the same without a process, and takes a tenth of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.checkpoints.store import newest_whole, store_of
from trainwright.trainer.engine.loop import train
from trainwright.trainer.engine.observers.checkpointing import Checkpointing, Selection
from trainwright.trainer.engine.observers.observer import Observer, Observers, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.trackers import Trackers
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.supervision.stop import StopRequest

if TYPE_CHECKING:
    from trainwright.trainer.engine.session import Session
    from trainwright.trainer.run import RunDirectory


class Halted(BaseException):
    """A run went no further."""


class Halt(Observer):
    """Leaves a run before anything of a step is recorded or saved."""

    def __init__(self, at_step: int | None) -> None:
        self.at_step = at_step

    def step(self, session: Session, result: StepResult) -> None:
        if result.step == self.at_step:
            raise Halted


def train_here(run: RunDirectory, halt_at: int | None = None) -> Session:
    """Train a run from its newest checkpoint to its end, or to the step at which it is halted."""
    session = assemble(run.specification(), run, StopRequest(run.path / "stop_reason"))
    checkpoint, _ = newest_whole(store_of(run), config_digest=session.specification.config_digest)
    if checkpoint is not None:
        session.load(checkpoint)
        run.append_event("resumed", step=session.progress.step)
    recorder = Recorder(run.metrics(writer=True), Trackers(run, session.config, {}), SystemSampler())
    observers = Observers([Halt(halt_at), recorder, Selection(), Checkpointing()], lambda _: None)
    try:
        train(session, observers)
    finally:
        observers.close()
    return session


def assert_same_end(run: RunDirectory, whole: RunDirectory, *keys: str) -> None:
    """Assert that two runs have the same series and the same checkpoints, byte for byte.

    Args:
        keys: series beside the usual ones.
    """
    for key in ("train/loss", "train/gradient_norm", "train/learning_rate", "validation/loss", *keys):
        ours, theirs = ([(p.step, repr(p.value)) for p in each.metrics().series(key)] for each in (run, whole))
        assert ours == theirs, key
    ours, theirs = (sorted(path.name for path in each.checkpoints.glob("step-*")) for each in (run, whole))
    assert ours == theirs
    for name in ours:  # times stand in state.json, so that file may differ
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert (run.checkpoints / name / file).read_bytes() == (whole.checkpoints / name / file).read_bytes(), file
