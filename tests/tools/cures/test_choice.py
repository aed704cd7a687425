"""What a few equal steps can show is tried; the rest is proposed without a trial."""

from __future__ import annotations

import pytest

from trainwright.tools.gates.trying import can_be_shown


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
