"""Claims: which run under way is on which GPU, by the records of their launches.

A claim is derived and never given back: it holds while the run's worker lives or may still begin, so whatever is
killed leaves none behind. Read and written under the workspace's write lock, two starts cannot take one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlalchemy import select

from trainwright.tools.launchers import is_living, read_launch
from trainwright.tools.workspace.tables import Run

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


@dataclass(frozen=True)
class Claim:
    """GPUs that a run under way was given."""

    run: str
    project: str
    gpus: tuple[str, ...]
    """Their ids."""
    share: Fraction = Fraction(1)
    """Of each of them."""


def claims_of(session: Session, workspace: Workspace, *, without: str | None = None) -> list[Claim]:
    """Return the claims of the workspace's runs under way, of all its projects.

    Args:
        session: holds the workspace's write lock where the answer decides anything.
        without: a run that is left out: one that is about to be resumed.
    """
    found = []
    for run in session.scalars(select(Run).where(~Run.sealed, Run.id != (without or ""))):
        directory = workspace.run_directory(run.project, run.id)
        launch = read_launch(directory.path)
        if launch is not None and launch.gpus and is_living(directory):
            share = Fraction(1, launch.runs_per_gpu)
            found.append(Claim(run.id, run.project, tuple(gpu.id for gpu in launch.gpus), share))
    return found
