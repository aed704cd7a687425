"""Price of the work on one device: training, search, storage and prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from trainwright.tools.costs.answer import Bounds, PlatformCost
from trainwright.tools.costs.hours import (
    BUSY_SHARE,
    HOURS_PER_MONTH,
    PROVISIONING_SECONDS,
    Epochs,
    bounded_epochs,
    confirming_runs,
    epochs_on,
    searched_epochs,
    steps_per_epoch,
    with_interruptions,
)
from trainwright.tools.costs.measured import Measured
from trainwright.tools.costs.scaling import Interval, on_other_cpu, step_on
from trainwright.tools.training_architect.hardware import Device, named_device, probed_device
from trainwright.trainer.base.errors import ConfigurationError, near, near_matches
from trainwright.trainer.base.records import Closed
from trainwright.trainer.base.time_units import HOUR
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.estimation.duration import LAUNCH_SECONDS, estimate_time
from trainwright.trainer.estimation.prices import OWN, Price, PriceList
from trainwright.trainer.estimation.results import Work as CountedWork

# Request for an estimate of costs, with the bounds of each number.

TOOL = "estimate_cost"


class CostRequest(Closed):
    """What is to be priced. None: as the project's configuration has it."""

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


GIGABYTE = 1e9


@dataclass(frozen=True)
class Work:
    """What is to be priced, with all that is known of its duration."""

    request: CostRequest
    config: TrainingConfig
    epochs: int
    trials: int
    measured: Measured | None
    source: Device | None
    """That the run was measured on."""
    counted: CountedWork | None
    latency_seconds: tuple[float, str] | None
    """Of one prediction on a processor, and the export that measured it."""
    stored_bytes: int

    def bounded(self, epochs: int) -> float:
        """Return the epochs that a run makes of so many, until `training.max_steps` ends it."""
        per_epoch = steps_per_epoch(self.measured, self.counted)
        return bounded_epochs(epochs, self.config.training.max_steps, per_epoch)

    def searched(self) -> tuple[Interval, Interval, str]:
        """Return the epochs of all trials, those among them that are validated, and what a pruner saves."""
        search, epochs = self.config.search, self.config.training.epochs
        bound = self.bounded(epochs)
        steps, saves = searched_epochs(search, self.trials, epochs, bound)
        return steps, searched_epochs(search, self.trials, epochs, math.ceil(bound))[0], saves

    def told(self) -> dict[str, Any]:
        """Return the work in a few numbers."""
        search = {"trials": self.trials, "pruner": self.searched()[2]} if self.trials else {}
        made = self.bounded(self.epochs)
        bound = {"max_steps": self.config.training.max_steps} if made < self.epochs else {}
        epochs = self.epochs if not bound else _short(made)
        return {"runs": self.request.runs, "epochs": epochs, **bound, "gpus": self.request.gpus, **search}

    def assumed(self) -> list[str]:
        """Return what the sums assume, one sentence each."""
        low, high = PROVISIONING_SECONDS.low, PROVISIONING_SECONDS.high
        lines = [f"each run on a rented machine pays {low:g} to {high:g} s before it starts (boot, image, packages)"]
        if self.source is not None and self.counted is not None:
            lines.append(
                f"measured on {self.source.name}: another GPU's steps lie between the ratio of arithmetic and that of "
                "bandwidth, and the share that waits does not get faster"
                if self.source.kind == "cuda"
                else "measured on a processor, which says nothing of a GPU's steps: those are counted"
            )
        counts = {self.request.gpus, max(self.measured.gpus, 1) if self.measured is not None else 1}
        if counts != {1}:
            lines.append(f"{max(counts)} devices reach 50 to 100 % of the ideal speed-up over one")
        if self.request.requests_per_month is not None:
            lines.append(f"a replica predicts one sample at a time, at most {BUSY_SHARE:.0%} of its time")
        stored = "storage is for one month" if self.stored_bytes else (
            "storage is left out: no checkpoint of this configuration was measured"
        )  # fmt: skip
        lines.append(stored)
        return lines


def priced(row: Price, device: Device, work: Work, prices: PriceList, lost_seconds: float) -> PlatformCost | str:
    """Return the line of one device; a sentence that says why there is none."""
    request, price = work.request, row.price_per_hour or 0.0
    gpus = request.gpus if device.kind == "cuda" else 1
    steps = step_on(
        device, gpus, measured=work.measured, source=work.source, work=work.counted,
        precision=work.config.training.precision,
    )  # fmt: skip
    if steps is None:
        return "neither measured there nor counted; start a probe on such a machine"
    epochs = epochs_on(steps, work.measured, work.counted)
    is_rented = row.platform.lower() != OWN
    hours = _interrupted(
        epochs.hours(work.bounded(work.epochs), request.runs, is_rented=is_rented), row, work, lost_seconds
    )
    training = hours.times(price * gpus)
    searched = None
    if work.trials:
        searched = _interrupted(_search_hours(work, epochs, is_rented=is_rented), row, work, lost_seconds)
    storage = _storage(row, work, prices)
    whole = hours + (searched or Interval(0.0, 0.0))
    total = whole.times(price * gpus)
    return PlatformCost(
        platform=row.platform, accelerator=row.accelerator, spot=row.spot or None, price_per_gpu_hour=price,
        price_date=str(row.date), basis=steps.basis, training_hours=_bounds(hours), training=_bounds(training),
        search=_bounds(searched.times(price * gpus)) if searched is not None else None,
        search_hours=_bounds(searched) if searched is not None else None,
        gpu_hours=_bounds(whole.times(gpus)) if device.kind == "cuda" else None, storage=storage,
        total=_bounds(Interval(total.low + (storage or 0.0), total.high + (storage or 0.0))),
        **_prediction(row, device, work),
    )  # fmt: skip


def _interrupted(hours: Interval, row: Price, work: Work, lost_seconds: float) -> Interval:
    """Return the hours of a spot machine with the interruptions that the call says; others as they are."""
    per_day = work.request.interruptions_per_day
    if not row.spot or per_day is None:
        return hours
    return Interval(*(with_interruptions(end, per_day, lost_seconds) for end in (hours.low, hours.high)))


def _search_hours(work: Work, epochs: Epochs, *, is_rented: bool) -> Interval:
    """Return the hours of all trials, each with its start, and of the runs that confirm the best."""
    steps, validated, _ = work.searched()
    own, other = epochs.steps_seconds, epochs.other_seconds
    trained = Interval(own.low * steps.low, own.high * steps.high)
    beside = Interval(other.low * validated.low, other.high * validated.high)
    trials = trained + beside + epochs.start_seconds.times(work.trials)
    confirming = confirming_runs(work.config, work.trials)
    again = epochs.hours(work.bounded(work.config.training.epochs), confirming, is_rented=False)
    once = PROVISIONING_SECONDS.times(1 / HOUR) if is_rented else Interval(0.0, 0.0)
    return trials.times(1 / HOUR) + again + once


def _storage(row: Price, work: Work, prices: PriceList) -> float | None:
    """Return the cost of the checkpoints for one month; None without a price or a size."""
    found = [one.price_per_gb_month for one in prices.storage if one.platform == row.platform]
    if not found or found[0] is None or not work.stored_bytes:
        return None
    return round(work.stored_bytes / GIGABYTE * found[0], 4)


def _prediction(row: Price, device: Device, work: Work) -> dict[str, Any]:
    """Return the sums for predictions: by the thousand, for the month's requests, and of replicas that never stop."""
    seconds = _seconds_of_prediction(device, work)
    if seconds is None or row.price_per_hour is None or row.spot:
        return {}
    thousand = seconds.times(1000 * row.price_per_hour / HOUR)
    answer: dict[str, Any] = {"per_1000_requests": _bounds(thousand)}
    asked = work.request.requests_per_month
    if asked is None:
        return answer
    replicas = [max(1, math.ceil(asked * end / (HOURS_PER_MONTH * HOUR * BUSY_SHARE)))
                for end in (seconds.low, seconds.high)]  # fmt: skip
    always = Interval(*(count * HOURS_PER_MONTH * row.price_per_hour for count in replicas))
    return answer | {
        "requests_per_month": _bounds(thousand.times(asked / 1000)),
        "always_on_per_month": _bounds(always),
    }


def _seconds_of_prediction(device: Device, work: Work) -> Interval | None:
    """Return the seconds of one prediction: as the export measured it on a processor, else by a roofline."""
    if device.kind == "cpu":
        return _measured_latency(device, work)
    counted, accelerator = work.counted, device.accelerator
    if counted is None or accelerator is None:
        return None
    rows = max(counted.samples_per_step, 1)
    one = replace(
        counted, flops_per_step=counted.forward_flops / rows, bytes_per_step=counted.forward_bytes / rows,
        operations_per_step=max(counted.operations_per_step // 3, 1), update_bytes=0.0, steps=1, validations=0,
    )  # fmt: skip
    try:
        found = estimate_time(one, accelerator, precision=work.config.training.precision)
    except ValueError:
        return None
    launch = LAUNCH_SECONDS[accelerator.kind]  # one at the least, however small the model is
    return Interval(max(found.step_seconds_low, launch), max(found.step_seconds_high, launch))


def _measured_latency(device: Device, work: Work) -> Interval | None:
    if work.latency_seconds is None:
        return None
    own = Interval.around(work.latency_seconds[0], 0.2)
    return on_other_cpu(own) if device.name == OTHER_CPU else own


def _bounds(found: Interval) -> Bounds:
    return (_short(found.low), _short(found.high))


def _short(value: float) -> float:
    return float(f"{value:.3g}")


# Devices of a price file's rows, and of the run that was measured.

CPU = "CPU"
OTHER_CPU = "another CPU"


def wanted_rows(prices: PriceList, hardware: Sequence[str], owners: Path) -> tuple[list[Price], list[str]]:
    """Return the filled-in rows of the wanted hardware (all by default), and why others cannot be used.

    Raises:
        ConfigurationError: hardware of an unknown name, or without a price in the file; names what is to be filled in.
    """
    wanted = {_name(one, owners) for one in hardware}
    not_priced: list[str] = []
    rows: list[Price] = []
    empty: list[Price] = []
    for row in (*prices.rows, *prices.empty):
        try:
            name = _name(row.accelerator, owners)
        except ConfigurationError as error:
            not_priced.append(f"{row.platform} {row.accelerator}: {error.message}")
            continue
        if not wanted or name in wanted:
            (rows if row.price_per_hour is not None else empty).append(row)
    missing = wanted - {_name(row.accelerator, owners) for row in rows}
    if missing:
        raise _without_price(prices, sorted(missing), empty)
    not_priced += [f"{row.platform} {row.accelerator}: price not filled in ({row.source})" for row in empty]
    return rows, not_priced


def _without_price(prices: PriceList, missing: list[str], empty: list[Price]) -> ConfigurationError:
    places = [f"{row.platform} {row.accelerator} ({row.source})" for row in empty]
    known = sorted({row.accelerator for row in prices.rows})
    fill = f"Fill in: {', '.join(places[:6])}." if places else f"Add a row for it.{near_matches(missing[0], known)}"
    return ConfigurationError(
        f"{prices.path.name} has no price of {', '.join(missing)}.",
        remedy=f"{fill} Or leave hardware out: {', '.join(known[:8])} have prices.",
    )


def _name(accelerator: str, owners: Path) -> str:
    return CPU if accelerator.strip().upper() == CPU else named_device(accelerator, owners).name


def device_of_row(row: Price, owners: Path) -> Device:
    """Return the device of a row; of machines without an accelerator, only the user's own is the one that measured."""
    if row.accelerator.strip().upper() == CPU:
        return Device(CPU if row.platform.lower() == OWN else OTHER_CPU, "cpu", 1, 0, source="the row")
    return named_device(row.accelerator, owners)


def device_of_run(measured: Measured, owners: Path) -> Device:
    """Return the device that a run was measured on."""
    hardware = measured.hardware
    gpus = hardware.get("gpus") or []
    if not measured.is_on_gpu or not gpus:
        return Device(CPU, "cpu", 1, int(hardware.get("memory_bytes") or 0), source=str(hardware.get("cpu") or ""))
    return probed_device({"gpus": gpus, "ram_bytes": hardware.get("memory_bytes") or 0}, owners)
