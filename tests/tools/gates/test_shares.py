"""The remedy for splits that are too small changes something, and is enough; else more samples are asked for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.checks.planning import _larger_shares, data_volume
from trainwright.trainer.config import parse_config
from trainwright.trainer.run.evidence import Data


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


@pytest.mark.requirement("GATE-2", "PHASE-2")
@pytest.mark.parametrize(
    ("sizes", "different", "status", "tool"),
    [
        ({"train": 80, "validation": 10, "test": 10}, {}, "passed", None),
        ({"train": 80, "validation": 20, "test": 20}, {"train": 10, "validation": 10}, "passed", None),
        ({"train": 80, "validation": 20, "test": 20}, {"validation": 9}, "failed", "start_training"),
        ({"train": 900, "validation": 90, "test": 11}, {}, "failed", "start_training"),
        ({"train": 80, "validation": 5, "test": 15}, {}, "failed", "configure"),
        ({"train": 80, "validation": 20, "test": 0}, {}, "failed", "configure"),
    ],
)
def test_the_volume_of_the_data_has_a_lower_and_an_upper_bound(sizes, different, status, tool):
    record = {"splits": {name: {"size": size, "different": different.get(name, size)} for name, size in sizes.items()}}
    evidence = SimpleNamespace(
        smoke=SimpleNamespace(data=Data.model_validate(record)),
        config=parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}}),
        call=lambda tool, why, **arguments: NextCall(tool=tool, why=why, arguments=arguments),
    )
    found = data_volume(evidence, CheckLine(id="planning.data_volume", text="", threshold=10, most=1000))
    assert found.status == status
    assert found.required == "train, validation and test of at least 10 samples, at most 1000 in all"
    assert (found.next.tool if found.next else None) == tool
    assert ("validation 20 (9 different)" in found.measured) == (different == {"validation": 9})
