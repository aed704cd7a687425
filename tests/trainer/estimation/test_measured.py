"""The estimator's own error: what the last `make bench-memory` measured, told in one place and published as such."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.trainer.config import parse_config
from trainwright.trainer.estimation.memory import MEASURED, estimate, with_strategy

PUBLISHED = Path(__file__).parents[3] / "docs/benchmarks.md"


@pytest.mark.requirement("ARCH-4", "ARCH-1")
def test_an_estimate_tells_the_error_that_the_bench_measured_and_no_other(tmp_path: Path) -> None:
    measured = json.loads(MEASURED.read_text())
    assert measured["below"] == 0
    assert measured["pairs"] >= 30
    assert measured["worst_percent"] <= 3.0
    found = estimate(parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}}), tmp_path, tmp_path).memory
    assert found.error_percent == measured["worst_percent"]
    assert with_strategy(found, "ddp", 2).error_percent == measured["worst_percent"]
    assert with_strategy(found, "zero2", 2).error_percent is None  # DeepSpeed was not measured here
    text = PUBLISHED.read_text()
    assert f"{measured['pairs']} pairs, {measured['date']}" in text
    assert f"worst {measured['worst_percent']} %" in text
