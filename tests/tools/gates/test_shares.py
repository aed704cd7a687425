"""The remedy for splits that are too small changes something, and is enough; else more samples are asked for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trainwright.tools.gates.checks.planning import _larger_shares
from trainwright.trainer.config import parse_config


@pytest.mark.requirement("GATE-2", "PHASE-2")
@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ({"train": 42, "validation": 9, "test": 9}, {"data.split.validation": 0.2, "data.split.test": 0.2}),
        ({"train": 80, "validation": 12, "test": 8}, {"data.split.validation": 0.15, "data.split.test": 0.12}),
        ({"train": 14, "validation": 3, "test": 3}, None),
        ({"train": 8, "validation": 60, "test": 60}, None),
    ],
)
def test_small_splits_are_mended_by_shares_that_suffice_or_by_more_samples(sizes, shares):
    evidence = SimpleNamespace(config=parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}}))
    assert _larger_shares(evidence, sizes, 10.0) == shares
