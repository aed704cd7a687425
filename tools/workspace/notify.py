"""Notification: how the owner's settings say that a person is told of alerts unasked."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trainwright.trainer.data.remote.connections import Variable


class Notify(BaseModel):
    """How the owner is told of alerts; the secrets stay in environment variables, which are only named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    command: list[str] | None = Field(default=None, min_length=1)
    """A program and its arguments; the alert is its standard input."""
    webhook: str | None = Field(default=None, pattern=r"^https?://[^/\s@]+[^\s@]*$")
    """Address to which the alert is posted."""
    webhook_env: Variable | None = None
    """Variable that holds the address, where the address itself is a secret."""
    secret_env: Variable | None = None
    """Variable whose value is sent as `Authorization: Bearer …`."""
    severity: Literal["critical", "warning"] = "warning"
    """The least severity that is sent."""
    seconds: float = Field(default=10.0, gt=0, le=60, strict=False)
    """Longest time of one attempt."""

    @model_validator(mode="after")
    def _names_a_way(self) -> Self:
        if not self.ways:
            raise ValueError("name a command, a webhook or webhook_env")
        if self.webhook and self.webhook_env:
            raise ValueError("name the webhook or webhook_env, not both")
        return self

    @property
    def ways(self) -> list[str]:
        """The ways that are named: command, webhook."""
        return [*(["command"] if self.command else []), *(["webhook"] if self.webhook or self.webhook_env else [])]

    def takes(self, severity: str) -> bool:
        """Return whether alerts of this severity are sent."""
        return severity in {"critical", self.severity}
