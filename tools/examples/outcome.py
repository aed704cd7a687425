"""Outcome of a copied example: whether its model is released, and its figure on the held-back rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from trainwright.tools.examples.catalogue import Example
from trainwright.trainer.base.errors import NotFoundError

WORKSPACE = ".trainwright"
"""The workspace's folder within a copy: where a server that is started there keeps it."""


@dataclass(frozen=True)
class Outcome:
    """The end of an example's project."""

    released: bool
    """Whether all gates have passed, `final_model/` is there, and the goal is reached or may be missed by the card."""
    said: str
    """The project's own words on its result."""
    value: float | None
    """Of the expected metric on the held-back rows, as the model card has it; None without a final model."""
    rows: int
    within: bool
    """Whether the value is within the expected spread."""
    final_model: Path


def outcome_of(example: Example, folder: Path) -> Outcome:
    """Return how an example's copy has ended, from its workspace. Raises NotFoundError without a project."""
    from trainwright.tools.projects import read_status
    from trainwright.tools.workspace import Workspace

    if not (folder / WORKSPACE / "workspace.sqlite").is_file():
        raise NotFoundError(
            f"{folder} has no workspace yet.", remedy=f"trainwright example {example.name} --into {folder} --run"
        )
    workspace = Workspace.open(folder / WORKSPACE)
    try:
        status = read_status(workspace, example.name)
    finally:
        workspace.close()
    final_model = folder / WORKSPACE / "projects" / example.name / "final_model"
    value, rows = _tested(final_model / "metrics.json", example.expected.metric)
    said = status.reached or f"The project is in {status.phase}."
    released = status.finished and value is not None and may_end(example, said)
    within = value is not None and example.expected.holds(value)
    return Outcome(released, said, value, rows, within, final_model)


def may_end(example: Example, said: str) -> bool:
    """Return whether an example may end as its project says: below the goal only where the card allows it."""
    return example.may_miss or not said.startswith("Goal not reached")


def _tested(path: Path, metric: str) -> tuple[float | None, int]:
    if not path.is_file():
        return None, 0
    test = json.loads(path.read_text(encoding="utf-8"))["test"]
    return test["metrics"].get(metric), int(test["size"])
