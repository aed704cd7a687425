"""Memory and time of a plan by formula, for models that are not on this machine; an interval, and it says so.

Weights, gradients and Adam's moments: 16 bytes a trained parameter in fp32 (Rajbhandari et al. 2020, arXiv:1910.02054).
Activations of a transformer's layer: 34 bytes a value in 16 bits with fused attention (Korthikanti et al. 2022,
arXiv:2205.05198). Operations: 6 a parameter and token (Kaplan et al. 2020, arXiv:2001.08361).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwright.tools.documents import SKILL
from trainwright.tools.environments import runtime_of
from trainwright.tools.estimation import estimate
from trainwright.tools.launchers.worker_wall import walled
from trainwright.tools.training_architect.hardware import Device
from trainwright.tools.training_orchestrator import locations
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import parse_config
from trainwright.trainer.estimation.duration import estimate_time
from trainwright.trainer.estimation.prices import DOLLARS, OWNERS, PriceList, cheapest, load_prices
from trainwright.trainer.estimation.results import Work

CONTEXT_BYTES = 700 * 2**20
"""Of CUDA's context and its libraries on a device."""
GRADIENT_BYTES, ADAM_BYTES = 4.0, 8.0
"""Of a trained parameter in fp32: its gradient, and two moments."""
SLACK = 1.15
"""For what the formula leaves out: buffers, temporary tensors, gaps."""
ADAPTED_SHARE = 0.01
"""Of the weights, that adapters of rank 8 to 16 on all linear layers have, rounded up."""
RECOMPUTED = "training.gradient_checkpointing"
QUANTISED = {"8bit": 1.05, "4bit": 0.57}
"""Bytes a weight of a quantised linear layer, with its scales (Dettmers et al. 2023: a scale for 64 weights)."""
SOURCE = "formula (arXiv:2205.05198 with 15 % more); its error is not measured"


@dataclass(frozen=True)
class Estimate:
    """Memory of one device, with where it comes from."""

    peak_bytes: int
    source: str
    error_percent: float | None = None
    """Largest error that was measured of this way to estimate; None: not measured."""
    parameters: int | None = None
    """Of the model, where it was counted on the way."""
    step_seconds: tuple[float, float] | None = None
    """Least and most seconds of an update, where its work was counted."""


def memory_by_formula(
    model: Mapping[str, Any],
    changes: Mapping[str, Any],
    *,
    rows: int,
    tokens: int,
    half: bool,
    causal: bool,
    parts: int = 1,
    optimizer_bytes: float = ADAM_BYTES,
) -> Estimate:
    """Return the memory that one device takes for a micro-batch.

    Args:
        model: parameters, layers, width, vocabulary.
        changes: the way's: whether there are adapters, and activations are computed twice.
        rows: of the micro-batch on this device.
        tokens: of a row.
        half: whether layers compute in 16 bits.
        causal: whether every token has logits.
        parts: devices among which weights and moments are divided.
        optimizer_bytes: that the optimizer keeps of a trained parameter.
    """
    parameters = float(model["parameters"])
    trained = parameters * ADAPTED_SHARE if "adapter" in changes else parameters
    states = (held_bytes(model, changes, half=half) + (GRADIENT_BYTES + optimizer_bytes) * trained) / parts
    layers, width = model.get("layers") or 12, model.get("width") or 768
    value = rows * tokens * width * (1.0 if half else 2.0)
    is_recomputed = RECOMPUTED in changes
    activations = value * (2 * layers + 34) if is_recomputed else value * 34 * layers
    logits = 10.0 * rows * tokens * (model.get("vocabulary") or 0) if causal else 0.0
    return Estimate(int((states + activations + logits) * SLACK) + CONTEXT_BYTES, SOURCE)


def held_bytes(model: Mapping[str, Any], changes: Mapping[str, Any], *, half: bool) -> float:
    """Return the bytes of the weights as they are held, and of their copies in 16 bits where those are made."""
    parameters = float(model["parameters"])
    if (bits := changes.get("model.args.quantize")) is not None:
        return parameters * 2 - saved_bytes(model, bits)
    if changes.get("model.args.dtype") == "bfloat16":
        return parameters * 2
    return parameters * (6 if half else 4)


def saved_bytes(model: Mapping[str, Any], bits: str) -> float:
    """Return by how many bytes quantised weights are smaller than in bf16: embedding and output stay as they are."""
    whole = 2.0 * (model.get("vocabulary") or 0) * (model.get("width") or 0)
    return max(float(model["parameters"]) - whole, 0.0) * (2 - QUANTISED[bits])


def less_by_quantising(traced: Estimate, model: Mapping[str, Any], bits: str) -> Estimate:
    """Return the memory with quantised weights, from what was traced with a base in bf16."""
    known = {**model, "parameters": model.get("parameters") or traced.parameters or 0}
    peak = max(traced.peak_bytes - saved_bytes(known, bits), 0)
    source = f"{traced.source} with a base in bf16, less what {bits} saves by arithmetic; its error is not measured"
    return replace(traced, peak_bytes=int(peak), source=source, error_percent=None)


def work_by_formula(model: Mapping[str, Any], changes: Mapping[str, Any], *, rows: int, tokens: int) -> Work:
    """Return the work of an update of one device, for a model that is not here.

    Args:
        model: parameters, layers, width.
        changes: the way's.
        rows: of an update, on this device.
        tokens: of a row.
    """
    parameters, layers, width = float(model["parameters"]), model.get("layers") or 12, model.get("width") or 768
    trained = parameters * ADAPTED_SHARE if "adapter" in changes else parameters
    passes = (4.0 if "adapter" in changes else 6.0) + (2.0 if RECOMPUTED in changes else 0.0)
    update = 28.0 * trained  # weight, gradient and two moments are read, three of them written, in fp32
    moved = passes * parameters + 3 * 34.0 * rows * tokens * width * layers + update
    flops = passes * parameters * rows * tokens
    return Work(
        flops_per_step=flops, bytes_per_step=moved, forward_flops=flops / 3, forward_bytes=moved / 3,
        operations_per_step=120 * layers, update_bytes=update, exchanged_bytes=4.0 * trained, steps=1, epochs=1,
        validation_batches=0, validations=0, samples_per_step=rows,
    )  # fmt: skip


def step_seconds(work: Work, device: Device, precision: str) -> tuple[float, float] | None:
    """Return the least and most seconds of an update; None where the device's speed is not known."""
    record = device.accelerator
    if record is None:
        return None
    found = estimate_time(work, record, precision=precision, devices=device.count)
    return found.step_seconds_low, found.step_seconds_high


# Memory and work of a plan, traced on its real data without allocating the model, and the price of an hour.

DEFAULTS = SKILL.parent / "cost-calculator" / "prices.defaults.yaml"
"""Prices that count while the owner has no file of them."""
TRACED = "traced on your rows without allocating the model"
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
        source = TRACED + (ON_GPU if self.device.kind == "cuda" and memory.error_percent is not None else "")
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
