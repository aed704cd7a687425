"""Price that counts against the limit of money, on this machine and on a rented one: one rule for all who ask."""

from __future__ import annotations

from pathlib import Path

from trainwright.tools.workspace import Settings
from trainwright.trainer.estimation.prices import DOLLARS, OWNERS, Price, is_same, load_prices

RENTED = ("modal", "lambda", "runpod", "skypilot", "slurm", "kubernetes", "kubeflow")
"""Platforms whose rows of the owner's prices count in a job there, by the beginning of their name."""
ALSO = {"kubeflow": ("kubernetes",)}
"""Platforms that run on another's machines, whose rows count where they have none."""


def counted_price(
    folder: Path, settings: Settings, platform: str, accelerator: str, *, spot: bool
) -> tuple[float, str]:  # fmt: skip
    """Return what an hour of one GPU counts, and where that stands; (0, "") where money is not counted.

    The owner's price_per_gpu_hour counts everywhere; without it the platform's row in the owner's prices.yaml counts in
    a job there. No other file of prices does.

    Args:
        folder: of the workspace.
        platform: as a request or a row of prices names it.
        accelerator: as accelerators.yaml names it.

    Raises:
        ConfigurationError: prices.yaml does not fit.
    """
    if settings.price_per_gpu_hour > 0:
        return settings.price_per_gpu_hour, "the owner's settings.yaml"
    own = folder / OWNERS
    begins = next((name for name in RENTED if platform.lower().startswith(name)), None)
    if begins is None or not own.is_file():
        return 0.0, ""
    prices = load_prices(own)
    rows = [row for name in (begins, *ALSO.get(begins, ())) for row in prices
            if _is_row(row, name, accelerator) and row.spot == spot]  # fmt: skip
    if not rows or rows[0].price_per_hour is None:
        return 0.0, ""
    unit = "" if prices.currency == DOLLARS else f", in {prices.currency}"
    return rows[0].price_per_hour, f"{rows[0].told()}{unit}"


def _is_row(row: Price, begins: str, accelerator: str) -> bool:
    return row.platform.lower().startswith(begins) and is_same(row.accelerator, accelerator)
