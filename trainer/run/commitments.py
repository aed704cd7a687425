"""Commitments to a run's complete state around steps that are drawn from its key, so that anyone can replay one.

The draw is the run key's signature over a fixed text: nobody can know it before the worker has the key, and whoever
has the ledger's public half can check it.
"""

from __future__ import annotations

import hashlib

from pydantic import Field

from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.run.evidence import Part, Recorded
from trainwright.trainer.run.key import RunKey, has_signed

EARLY_SHARE = 10
"""One of the steps is among the first tenth, so that a run that ends early has one too."""


class Draw(Recorded):
    """The steps that one attempt was to commit to."""

    proof: str
    """The signature that they are drawn by."""
    first: int
    """Steps made before the attempt."""
    last: int
    """Steps of the whole plan."""

    @property
    def steps(self) -> list[int]:
        """Numbers of the drawn steps, in order; none where the attempt is too short.

        The first two steps of a resumed attempt are left out: the state before them is that after an epoch's end.
        """
        low = self.first + 2 if self.first else 1
        if low > self.last:
            return []
        widths = [(self.last - low) // EARLY_SHARE + 1, self.last - low + 1]
        return sorted({low + self._number(place) % width for place, width in enumerate(widths)})

    def is_of(self, run_id: str, public: str) -> bool:
        """Return whether the owner of the public key drew it for this run."""
        return has_signed(public, _statement(run_id), self.proof)

    def _number(self, place: int) -> int:
        return int.from_bytes(hashlib.blake2b(f"{place} {self.proof}".encode(), digest_size=8).digest(), "little")


class StepState(Recorded):
    """Digests of the complete state after the step before it, and after the step itself; None: not reached."""

    before: str | None = None
    after: str | None = None


class Commitments(Part, file="commitments"):
    """What a run has committed to."""

    draws: list[Draw] = Field(default_factory=list)
    """One for each attempt that ended in order."""
    steps: dict[str, StepState] = Field(default_factory=dict)
    """By the step's number."""

    def problem(self, run_id: str, public: str, steps: int) -> str | None:
        """Return why these are not the commitments of a run that ended in order; None where they are.

        Args:
            public: the public key of its last attempt.
            steps: how many it has made.
        """
        if not self.draws or not self.draws[-1].is_of(run_id, public):
            return "its steps to be replayed were not drawn by its key"
        draw = self.draws[-1]
        if draw.last < steps:
            return f"its steps to be replayed were drawn from {draw.last}, and it has made {steps}"
        for step in draw.steps:
            state = self.steps.get(str(step), StepState())
            if step <= steps and not (state.before and state.after):
                return f"it has not committed to its state around step {step}"
        return None


def draw(key: RunKey, run_id: str, *, first: int, last: int) -> Draw:
    """Draw an attempt's steps by its key."""
    return Draw(proof=key.sign(_statement(run_id)), first=first, last=last)


def _statement(run_id: str) -> str:
    return canonical_json({"purpose": "steps to be replayed", "run_id": run_id})
