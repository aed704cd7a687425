"""Request for an estimate of costs, with the bounds of each number."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright.trainer.base.errors import ConfigurationError, near

TOOL = "estimate_cost"


class CostRequest(BaseModel):
    """What is to be priced. None: as the project's configuration has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: str = Field(min_length=1, max_length=200)
    hardware: tuple[str, ...] = Field(default=(), max_length=8)
    """Accelerators by name; empty: those that the price file names."""
    gpus: int = Field(default=1, ge=1, le=64)
    """Devices of one run."""
    epochs: int | None = Field(default=None, ge=1, le=1_000_000)
    runs: int = Field(default=2, ge=1, le=1_000)
    """Full trainings: by default one with the replay that a release needs; more for repetitions, retraining."""
    trials: int | None = Field(default=None, ge=0, le=100_000)
    """Of a search before it; None: those of the configuration's search, if it has one."""
    requests_per_month: float | None = Field(default=None, ge=0, le=1e12, allow_inf_nan=False)
    """Single predictions that the model is asked for."""
    interruptions_per_day: float | None = Field(default=None, ge=0, le=1_000, allow_inf_nan=False)
    """Of a spot machine; None: only the break-even is computed."""
    prices: str | None = Field(default=None, min_length=1, max_length=500)
    """File of prices below the project's code root; None: the workspace's prices.yaml."""

    def as_arguments(self) -> dict[str, Any]:
        """Return the arguments of the call that makes this request."""
        return self.model_dump(mode="json", exclude_defaults=True)


def read_cost_request(**given: Any) -> CostRequest:
    """Return the request. Raises ConfigurationError with the value, its bounds, and the same call without it."""
    values = {name: value for name, value in given.items() if value is not None}
    try:
        return CostRequest.model_validate(values)
    except ValidationError as error:
        raise _refused(values, error) from error


def _refused(values: dict[str, Any], error: ValidationError) -> ConfigurationError:
    first = error.errors()[0]
    name = str(first["loc"][0])
    rest = {key: value for key, value in values.items() if key != name}
    meant = near(name, CostRequest.model_fields) if first["type"] == "extra_forbidden" else []
    hint = f" Did you mean {meant[0]}?" if meant else ""
    return ConfigurationError(
        f"{name} = {str(first.get('input'))[:80]!r}: {first['msg']}.{hint}",
        remedy=f"The same call with another {name}, or without it.",
        details={"next": {"tool": TOOL, "arguments": rest, "why": f"{name} is left out"}} if "project" in rest else {},
    )
