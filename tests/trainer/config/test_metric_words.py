"""Words of metrics in a sentence: the quantile that a pinball loss is of, and no other number for it."""

from __future__ import annotations

import pytest

from trainwright.trainer.config.goal_words import spoken_goals

pytestmark = pytest.mark.requirement("ARCH-1")


@pytest.mark.parametrize(
    ("sentence", "metric", "target"),
    [
        ("pinball loss at 0.5 below 3", "pinball_50", 3.0),
        ("0.5 pinball loss under 2", "pinball_50", 2.0),
        ("pinball loss at 0.05 below 3", "pinball_5", 3.0),
        ("the 0.9 quantile loss under 2", "pinball_90", 2.0),
        ("90% quantile loss under 2", "pinball_90", 2.0),
        ("95 % pinball loss under 2", "pinball_95", 2.0),
        ("p90 pinball loss under 2", "pinball_90", 2.0),
        ("pinball loss of the 25th percentile under 2", "pinball_25", 2.0),
        ("pinball_10 under 2", "pinball_10", 2.0),
        ("pinball loss of 25", None, 25.0),
        ("a quantile loss of 0.5", None, 0.5),
        ("pinball loss at 5.5", None, 5.5),
        ("99th percentile pinball loss under 2", None, 2.0),
    ],
)
def test_a_pinball_loss_is_of_the_quantile_that_stands_with_it(
    sentence: str, metric: str | None, target: float
) -> None:
    (named,) = spoken_goals(f"predict price, {sentence}").named
    assert (named.word.metric, named.target) == (metric, target)
