"""Base of every answer to an agent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from trainwright.trainer.base.records import Frozen


class NextCall(Frozen):
    """The call that makes sense now."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    why: str = ""

    def __str__(self) -> str:
        """The call as an agent would write it: `pass_gate(project='digits', phase='planning')`."""
        return f"{self.tool}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


class Answer(BaseModel):
    """A result for an agent: typed, small, and never a dead end."""

    model_config = ConfigDict(extra="forbid")

    taken_as: list[str] | None = None
    """What of the call was taken in another form than it was written in, one sentence each."""
    next: NextCall | None = None

    def shown(self, *, full: bool = False) -> dict[str, Any]:
        """The answer as JSON values; what says nothing now only when all is asked for. Absent means "none yet"."""
        return self.model_dump(mode="json", exclude_none=True, exclude=None if full else self.unsaid())

    def unsaid(self) -> dict[str, Any]:
        """Fields that say nothing new, as pydantic's `exclude` takes them: name to True, or to what of it."""
        return {}
