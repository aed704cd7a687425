"""Commitments of a run: digests of its complete state around a few steps; at all others nothing is read."""

from __future__ import annotations

import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.engine.observers.observer import Observer, StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run.commitments import Commitments, StepState, draw


class Committing(Observer):
    """Records the state around the drawn steps. Comes first: other observers' work of a step is not in it."""

    def __init__(self, session: Session) -> None:
        self.part = session.run.part(Commitments)  # of an attempt that was stopped
        self.wanted = self._drawn(session)

    def _drawn(self, session: Session) -> set[int]:
        specification, key = session.specification, session.run.key
        if specification.replayed_step is not None:
            return {specification.replayed_step}
        if key is None or not specification.commits_steps or session.config.distributed.processes > 1:
            return set()
        last = min(session.total_steps, session.step_bound or session.total_steps)
        new = draw(key, specification.run_id, first=session.progress.step, last=last)
        self.part = Commitments(draws=[*self.part.draws, new], steps=self.part.steps)
        return set(new.steps)

    def start(self, session: Session) -> None:
        """Commit to the state before the first step, where that one is wanted."""
        if session.progress.step == 0:
            self._note(session, 0)

    def step(self, session: Session, result: StepResult) -> None:
        """Commit to the state after the step, where this or the next one is wanted."""
        self._note(session, result.step)

    def stop(self, session: Session, reason: str) -> None:  # noqa: ARG002 - the moment's form
        """Write the evidence."""
        if self.wanted or self.part.draws:  # a resumed attempt may be too short to have a step drawn
            session.run.write_evidence(self.part)

    def _note(self, session: Session, step: int) -> None:
        if not self.wanted & {step, step + 1}:
            return
        digest, steps = state_digest(session), dict(self.part.steps)
        if step in self.wanted:
            steps[str(step)] = steps.get(str(step), StepState()).model_copy(update={"after": digest})
        if step + 1 in self.wanted:
            steps[str(step + 1)] = StepState(before=digest)
        self.part = self.part.model_copy(update={"steps": steps})


def state_digest(session: Session) -> str:
    """Return the digest of all that the next step depends on: every component, bit by bit, without the time it took."""
    progress = session.progress
    times = progress.train_seconds, progress.data_wait_seconds
    progress.train_seconds, progress.data_wait_seconds = 0.0, 0.0
    try:
        model, packed, tensors = session.state()
    finally:
        progress.train_seconds, progress.data_wait_seconds = times
    hasher = blake3(canonical_json(packed).encode())
    for kind, values in (("model", model), ("state", tensors)):
        for name in sorted(values):
            _add(hasher, f"{kind}/{name}", values[name])
    return f"blake3:{hasher.hexdigest()}"


def _add(hasher: blake3, name: str, value: Tensor) -> None:
    data = value.detach().cpu().contiguous()
    hasher.update(f"\n{name} {data.dtype} {list(data.shape)}\n".encode())
    hasher.update(data.reshape(-1).view(torch.uint8).numpy().data)
