"""Whole runs in a test's own process: the engine's loop with its records and checkpoints, halted anywhere and resumed.

A worker's process, its provenance and its guards are left out; tests of those work on a run in a process (`work`).
What a killed process leaves on a disk is shown by real kills (engine/test_exact_resume.py); what a resume must bring
back is the same without a process, and takes a tenth of the time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.trainer import worker
from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.engine.loop import take_step, train
from trainwright.trainer.engine.observers.checkpointing import Checkpointing, Selection
from trainwright.trainer.engine.observers.observer import Observer, Observers, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder, Reporter
from trainwright.trainer.engine.trackers import trackers_of
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.evidence.run_evidence import resolved_evidence, summary_evidence
from trainwright.trainer.run import RunState
from trainwright.trainer.supervision.heartbeat import Heartbeat
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.supervision.stop import StopRequest

if TYPE_CHECKING:
    from trainwright.trainer.engine.session import Session
    from trainwright.trainer.run import RunDirectory


KEYS = ("train/loss", "train/gradient_norm", "train/learning_rate", "train/epoch_loss", "validation/loss")


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
    """Train a run from its newest checkpoint to its end, or to the step at which it is halted.

    Raises:
        Halted: at `halt_at`. And whatever ends a run.
    """
    specification, stop = run.specification(), StopRequest(run.path / "stop_reason")
    heartbeat = Heartbeat(run, specification, run.last_status().attempt + 1, stop)
    session = assemble(specification, run, stop)
    run.write_evidence(resolved_evidence(session))
    checkpoint, _ = newest_whole(DirectoryStore(run), config_digest=specification.config_digest)
    if checkpoint is not None:
        session.load(checkpoint)
        run.append_event("resumed", step=session.progress.step)
    sampler = SystemSampler()
    recorder = Recorder(run.metrics(writer=True), trackers_of(session), sampler)
    observers = Observers([Halt(halt_at), recorder, Selection(), Reporter(heartbeat), Checkpointing()], heartbeat.stage)
    try:
        reason = train(session, observers)
    finally:
        heartbeat.stage("ending")
        observers.close()
    run.write_evidence(summary_evidence(session, reason, sampler))
    heartbeat.end(RunState.COMPLETED, stop_reason=reason)
    return session


def work_here(run: RunDirectory) -> None:
    """Train a run, and record what ends it as a worker does."""
    specification = run.specification()
    try:
        session = train_here(run)
        run.write_evidence(data_evidence(session.work.splits, Path(specification.code_root)))
    except Exception as error:  # noqa: BLE001 - any error of user code is recorded
        heartbeat = Heartbeat(run, specification, 1, StopRequest(run.path / "stop_reason"))
        heartbeat.step = run.last_status().step
        worker._record_failure(run, heartbeat, worker._failure_of(error, Path(specification.code_root)))


def trained(session: Session) -> dict[str, float]:
    """Train a session to its last epoch without any record; return the values of validation."""
    session.model.train()
    for epoch in range(session.config.training.epochs):
        for group in session.groups():
            take_step(session, group)
        session.progress.epoch, session.progress.batch = epoch + 1, 0
        session.context.epoch = epoch + 1
    return evaluate_split(session, session.validation_loader)


def assert_same_end(run: RunDirectory, whole: RunDirectory, *keys: str) -> None:
    """Assert that two runs have the same series, the same results and the same checkpoints, byte for byte.

    Args:
        keys: series beside the usual ones.
    """
    for key in (*KEYS, *keys):
        ours, theirs = ([(p.step, repr(p.value)) for p in each.metrics().series(key)] for each in (run, whole))
        assert ours == theirs, key
    summaries = [each.evidence("summary") or {} for each in (run, whole)]
    for key in ("weights_digest", "best", "final", "stop_reason", "epochs", "steps"):
        assert summaries[0][key] == summaries[1][key], key
    names = sorted(path.name for path in whole.checkpoints.glob("step-*"))
    assert sorted(path.name for path in run.checkpoints.glob("step-*")) == names
    for name in names:  # times stand in state.json, so that file may differ
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert (run.checkpoints / name / file).read_bytes() == (whole.checkpoints / name / file).read_bytes(), file
