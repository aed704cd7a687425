"""Reading a phase's checklist: the document that agents read is the one that is enforced (PHASE-9)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from trainwright.tools.documents import SKILL, read_document
from trainwright.tools.gates.phases import Phase
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.records import Closed


class CheckLine(Closed):
    """One line of a checklist."""

    id: Annotated[str, Field(pattern=r"^[a-z]+\.[a-z0-9_]+$")]
    text: str
    threshold: float | None = None
    """The number the check compares with; its unit is in the text."""
    most: float | None = None
    """The number that it may not exceed, where it is bounded above as well."""
    required: bool = True
    """Whether the gate stays closed when the check fails; otherwise the report names it."""


class Checklist(Closed):
    """A phase's checklist: its front matter."""

    phase: Phase
    title: str
    artifacts: list[str]
    """Files that the server writes into the project folder when the gate passes."""
    checks: Annotated[list[CheckLine], Field(min_length=1)]


def checklist_digest(phase: Phase) -> str:
    """Return the digest of the phase's checklist, prose included. Raises OSError."""
    return digest_file(SKILL / phase.document)


def load_checklist(phase: Phase, root: Path = SKILL) -> Checklist:
    """Read a phase's checklist. Raises NotFoundError or ConfigurationError."""
    path = root / phase.document
    return while_unchanged(("checklist", path), [str(path)], lambda: read_document(path, Checklist)[0])
