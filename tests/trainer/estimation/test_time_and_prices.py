"""Seconds from counted work and from a probe, and money from dated prices."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from trainwright.tools.documents import SKILL
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.estimation.duration import after_probe, estimate_time
from trainwright.trainer.estimation.hardware import Accelerator
from trainwright.trainer.estimation.prices import cheapest, load_prices
from trainwright.trainer.estimation.processor import this_machine
from trainwright.trainer.estimation.results import Work

EXAMPLE = SKILL.parent / "cost-calculator" / "prices.example.yaml"
GPU = Accelerator("A100 80GB", "cuda", 80 * 2**30, 2e12, {"fp32": 19.5e12, "bf16": 312e12}, 300e9)
WORK = Work(
    flops_per_step=6e14, bytes_per_step=4e11, forward_flops=2e14, forward_bytes=1e11, operations_per_step=4000,
    update_bytes=1e11, exchanged_bytes=1.4e10, steps=1000, epochs=2, validation_batches=50, validations=2,
    samples_per_step=8,
)  # fmt: skip


@pytest.mark.requirement("COST-1")
def test_an_interval_holds_the_rooflines_and_a_probe_narrows_it() -> None:
    time = estimate_time(WORK, GPU, precision="bf16")
    assert 1000 * 6e14 / 312e12 < time.seconds_low < time.seconds_high < 20 * time.seconds_low
    assert (time.seconds, time.source) == (None, "roofline")
    assert estimate_time(WORK, GPU, precision="fp32").seconds_low > 5 * time.seconds_low
    assert estimate_time(WORK, GPU, precision="bf16", devices=8).seconds_high < 1.2 * time.seconds_high
    probed = after_probe(4.0, 1000, 1.3, 100)
    assert probed.seconds == pytest.approx(1000 * 4.0 + 100 * 1.3)
    assert probed.seconds_low < probed.seconds < probed.seconds_high <= 1.06 * probed.seconds
    assert probed.source == "probe"
    with pytest.raises(ValueError, match="has no rate for bf16: its record has int8"):
        Accelerator("odd", "tpu", 1, 1.0, {"int8": 1.0}).peak("bf16")


@pytest.mark.requirement("COST-1")
def test_prices_are_dated_and_replaced_by_the_owners_file(tmp_path: Path) -> None:
    shipped = load_prices(EXAMPLE)
    assert shipped.is_example
    assert {price.platform for price in shipped} == {"example-provider", "another-example"}
    assert EXAMPLE.read_text().startswith("# EXAMPLE")
    first = shipped.rows[0]
    assert first.date is not None
    assert "days old" not in first.told(first.date + dt.timedelta(days=30))
    assert "31 days old: prices move, so look it up again" in first.told(first.date + dt.timedelta(days=31))
    found = cheapest(shipped, "h100-sxm")
    assert found is not None
    assert (found.price_per_hour, found.platform) == (3.0, "another-example"), "a spot machine is no lasting one"
    own = tmp_path / "prices.yaml"
    own.write_text(
        "rows:\n- [Basement, A100 80GB, 0.1, 2026-11-01, our bill, false]\n- [B, A10, 9, 2026-11-01, b, true]\n"
    )
    price = cheapest(load_prices(own), "A100 80GB")
    assert price is not None
    assert price.date is not None
    assert (price.platform, price.date.isoformat(), price.source) == ("Basement", "2026-11-01", "our bill")
    assert cheapest(load_prices(own), "A10") is None  # a spot machine may be taken away
    for row, what in (
        ("[Basement, A100]", "row 1 has not a cell"),
        ("[B, A, -1, 2026-11-01, s, false]", "greater than"),
        ("[B, A, 0, 2026-11-01, s, false]", "greater than 0"),
    ):
        own.write_text(f"rows:\n- {row}\n")
        with pytest.raises(ConfigurationError, match=what) as refused:
            load_prices(own)
        assert "workspace's owner corrects it" in refused.value.remedy


@pytest.mark.requirement("COST-1")
def test_a_processor_is_measured_where_no_accelerator_is_named() -> None:
    found = this_machine()
    assert (found.name, found.kind) == ("CPU", "cpu")
    assert 1e8 < found.peak("bf16") == found.flops_per_second["fp32"] < 1e14
    assert 1e8 < found.bandwidth_bytes_per_second < 1e13
    assert estimate_time(WORK, found, precision="fp32").seconds_low > 0
