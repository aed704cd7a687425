"""Memory and work of a plan, traced on its real data without allocating the model, and the price of an hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.tools.documents import SKILL
from trainwright.tools.environments import runtime_of
from trainwright.tools.estimation import estimate
from trainwright.tools.launchers.worker_wall import walled
from trainwright.tools.training_architect.estimates import Estimate, step_seconds
from trainwright.tools.training_orchestrator import locations
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import parse_config
from trainwright.trainer.estimation.prices import DOLLARS, OWNERS, PriceList, cheapest, load_prices

if TYPE_CHECKING:
    from trainwright.tools.training_architect.hardware import Device
    from trainwright.tools.workspace import Workspace

DEFAULTS = SKILL.parent / "cost-calculator" / "prices.defaults.yaml"
"""Prices that count while the owner has no file of them."""
SOURCE = "traced on your rows without allocating the model"
ON_GPU = "; its error was measured on a processor, not on a GPU"
MIN_SECONDS = 5.0
"""Left of a call, below which nothing more is traced."""


class Tracer:
    """Traces configurations one after the other until the call's time is up; answers are kept in the cache.

    Attributes:
        problem: why nothing is traced any more; None while all goes well.
        is_out_of_time: whether the call's time was the reason.
    """

    def __init__(
        self, workspace: Workspace, root: Path, device: Device, deadline: float, should_stop: Callable[[], bool]
    ) -> None:
        self.workspace, self.root, self.device = workspace, root, device
        self.cache = workspace.path / "cache" / "estimates"
        self.deadline, self.should_stop = deadline, should_stop
        self.problem: str | None = None
        self.is_out_of_time = False

    def __call__(self, values: dict[str, Any]) -> Estimate | None:
        """Return the memory of one device; None where it could not be traced, which `problem` then says."""
        left = self.deadline - time.monotonic()
        if self.problem is None and (left < MIN_SECONDS or self.should_stop()):
            self.problem = "the call's time was up before memory was traced; call again, and it is"
            self.is_out_of_time = True
        if self.problem is not None:
            return None
        try:
            config = parse_config(values)
            by = walled(self.workspace.path, self.workspace.settings.wall(self.workspace.path))
            found = estimate(
                config, self.root, connections=locations.connections(self.workspace.settings, config),
                device_kind="cuda" if self.device.kind == "cuda" else "cpu", cache=self.cache,
                runtime=runtime_of(self.workspace, config, self.root), timeout_seconds=left,
                should_stop=self.should_stop, by=by,
            )  # fmt: skip
        except TrainwrightError as error:
            self.problem = f"memory was not traced: {error.message[:160]}"
            self.is_out_of_time = time.monotonic() >= self.deadline - MIN_SECONDS
            return None
        memory = found.memory
        seconds = step_seconds(found.work, self.device, config.training.precision)
        source = SOURCE + (ON_GPU if self.device.kind == "cuda" and memory.error_percent is not None else "")
        return Estimate(memory.peak_bytes, source, memory.error_percent, memory.parameters, seconds)


def price_of(workspace: Workspace, device: Device, given: float | None) -> tuple[float, str] | None:
    """Return the dollars of one device's hour: the call's, the owner's, else the cheapest lasting one of the list.

    None where nothing tells one.

    Raises:
        ConfigurationError: the owner's prices.yaml does not fit.
    """
    if given is not None:
        return given, "the call"
    if workspace.settings.price_per_gpu_hour > 0:
        return workspace.settings.price_per_gpu_hour, "the owner's settings.yaml"
    prices = prices_in_force(workspace)
    found = cheapest(prices, device.name) if prices.currency == DOLLARS else None
    return None if found is None or not found.price_per_hour else (found.price_per_hour, found.told(where=prices.told))


def prices_in_force(workspace: Workspace) -> PriceList:
    """Return the owner's prices; without a file of theirs, those that come with the package, dated and second-hand.

    Raises ConfigurationError: the owner's file does not fit.
    """
    own = workspace.path / OWNERS
    return load_prices(own if own.is_file() else DEFAULTS)
