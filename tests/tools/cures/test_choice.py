"""What a few equal steps can show is tried; the rest is proposed without a trial."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.trying import calls_against, can_be_shown


@pytest.mark.requirement("DIAG-10")
@pytest.mark.parametrize(
    ("alert", "changes", "shown"),
    [
        ("nan_loss", {"optimizer.learning_rate": 0.001}, True),
        ("unscaled_inputs", {"data.args.standardize": True}, True),
        ("underfitting", {"training.epochs": 20}, False),
        ("overfitting", {"early_stopping.enabled": True, "early_stopping.patience_epochs": 5}, False),
        ("overfitting", {"data.split.validation": 0.3}, False),
        ("out_of_memory", {"loader.batch_size": 16}, False),
        ("data_leak", {"data.args.exclude": ["id"]}, False),
        ("no_effect", {"optimizer.weight_decay": None}, False),
        ("vanishing_gradients", {}, False),
    ],
)
def test_a_fix_is_tried_where_a_pair_of_short_runs_can_tell(
    alert: str, changes: dict[str, object], shown: bool
) -> None:
    assert can_be_shown(alert, changes) is shown


RATE: dict[str, Any] = {"id": "raise_learning_rate", "text": "Triple it.", "changes": {"optimizer.learning_rate": 0.03}}
SAME: dict[str, Any] = {**RATE, "id": "triple_learning_rate"}
DECAY: dict[str, Any] = {"id": "less_decay", "text": "Less.", "changes": {"optimizer.weight_decay": 0.01}}


def alert(name: str, *fixes: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"id": name, "severity": "warning", "fixes": list(fixes), "measured": 0.8, "document": "", **further}


@pytest.mark.requirement("DIAG-10", "DIAG-8")
@pytest.mark.parametrize(("cured", "proposed"), [(False, ["optimizer.weight_decay"]), (True, None)])
def test_a_change_that_did_not_cure_the_cause_is_not_proposed_for_its_consequence(
    cured: bool, proposed: list[str] | None
) -> None:
    outcome = {"fix": RATE["id"], "changes": RATE["changes"], "cured": cured, "why": "as measured"}
    cure = {"cure_id": "cure-1", "run_id": "baseline-1", "alert": "underfitting", "config_digest": "blake3:1",
            "state": "ended", "outcomes": [outcome]}  # fmt: skip
    evidence: Any = SimpleNamespace(
        entries=lambda kind: [(1, cure)] if kind == "cure" else [],
        call=lambda tool, why, **arguments: NextCall(tool=tool, arguments=arguments, why=why),
        baseline=None,
        smoke=None,
    )
    run: Any = SimpleNamespace(id="baseline-1", row=SimpleNamespace(config_digest="blake3:1"))
    alerts = [alert("underfitting", RATE), alert("convergence_stall", SAME, DECAY, consequence_of="underfitting")]
    found = calls_against(evidence, run, alerts)
    keys = [key for one in found for key in one.arguments.get("changes", {})]
    assert keys == (proposed or ["optimizer.learning_rate", "optimizer.learning_rate", "optimizer.weight_decay"])
