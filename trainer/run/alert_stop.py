"""Stop of a run for an alert: requested by a follower, where the worker cannot judge the alert itself, or made alone.

A request is a file for each attempt, `alert_stop.<attempt>.json`, made once and never replaced: of any number of
followers one requests. The worker alone decides what becomes of it, and writes the events.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainwright.trainer.base.errors import AlertError
from trainwright.trainer.run.conditions import Severity

if TYPE_CHECKING:
    from trainwright.trainer.run.directory import RunDirectory
    from trainwright.trainer.run.status import RunStatus

REASON = "alert: "
"""What the stop reason of such a run begins with; the alert's id follows."""
SERVER = "server"
"""`found_by` of an alert that the worker did not find itself."""


class AlertStop(BaseModel):
    """Request to end one attempt of a run for an alert."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    does: Literal["stop", "checkpoint"]
    """As configured: both save the run; after `stop` it counts as failed."""
    id: str
    because_of: list[str] = []
    """Ids of its consequences that make it as grave."""
    severity: Severity
    message: str
    signal: str
    measured: float | None
    threshold: float
    step: int
    epoch: int | None
    layers: list[str]
    rows: list[int]
    document: str
    remedy: str
    """What to do first."""

    @property
    def reason(self) -> str:
        """The run's stop reason."""
        return f"{REASON}{self.id}"


def request_alert_stop(run: RunDirectory, attempt: int, request: AlertStop) -> bool:
    """Request the end of an attempt; return whether nobody had before. Raises OSError."""
    temporary = run.path / f".alert_stop.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        temporary.write_text(request.model_dump_json(indent=2))
        os.link(temporary, run.alert_stop(attempt))
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def requested_alert_stop(run: RunDirectory, attempt: int) -> AlertStop | None:
    """Return the request to end an attempt; None where there is none that can be read."""
    try:
        return AlertStop.model_validate_json(run.alert_stop(attempt).read_bytes())
    except (OSError, ValidationError):
        return None


def alert_behind(status: RunStatus) -> str | None:
    """Return the id of the alert that ended a run, as failed or with a checkpoint; None where none did."""
    if status.failure is not None:
        return str(status.failure.details.get("id")) if status.failure.category == AlertError.category else None
    is_alert = status.stop_reason is not None and status.stop_reason.startswith(REASON)
    return (status.stop_reason or "").removeprefix(REASON) if is_alert else None
