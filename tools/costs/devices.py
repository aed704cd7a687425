"""Devices of a price file's rows, and of the run that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.training_architect.hardware import Device, named_device, probed_device
from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.estimation.prices import OWN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainwright.tools.costs.measured import Measured
    from trainwright.trainer.estimation.prices import Price, PriceList

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
