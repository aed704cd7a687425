"""FSDP2: what needs whole tensors is refused. How it trains and resumes is in tests/contracts/test_strategies.py."""

from __future__ import annotations

from typing import Any

import pytest
from tests.releases import needs

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config

pytestmark = needs(releases.FSDP2)

FSDP2: dict[str, Any] = {"processes": 2, "strategy": "fsdp2", "restarts": 1}


@pytest.mark.requirement("TRAIN-6", "CONF-1")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimizer": {"name": "muon"}}, "set optimizer.name adamw, sgd, adam, lion"),
        ({"weight_averaging": {"name": "ema"}}, "take it out"),
        ({"training": {"precision": "fp16"}}, "set training.precision bf16"),
        ({"training": {"channels_last": True}}, "set training.channels_last false"),
        ({"training": {"compile": {}}}, "set it to null"),
        ({"freezing": {"patterns": ["a"], "unfreeze": [{"after_epochs": 1, "patterns": ["a"]}]}}, "strategy ddp"),
    ],
)
def test_what_needs_whole_tensors_is_refused(changes: dict[str, Any], said: str, iris: Any) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_config({**iris, "distributed": FSDP2, **changes})
