"""Answers that the server itself composes; those of the operations are beside them in `tools/`."""

from __future__ import annotations

from typing import Any

from trainwright.tools.answers import Answer


class ProjectsAnswer(Answer):
    """The newest projects of the workspace."""

    projects: list[dict[str, Any]]
    total: int
    left_out: int = 0
    """Older projects that are not listed; project_status(project=…) shows them all the same."""
    begin: str | None = None
    """Of an empty workspace: the page that says how a job begins."""

    def unsaid(self) -> dict[str, Any]:
        """That nothing is left out."""
        return {} if self.left_out else {"left_out": True}


class DocumentAnswer(Answer):
    """A page of a document."""

    path: str
    text: str
    offset: int
    total_characters: int
    next_offset: int | None = None


class DashboardAnswer(Answer):
    """Where the live page is."""

    address: str
    """With its token: who has it can read the page, on the server's machine. `#/runs/RUN_ID` behind it opens a run."""
    forward: str | None = None
    """Where the caller came over HTTP, maybe from another machine: the command there, before the address opens."""
