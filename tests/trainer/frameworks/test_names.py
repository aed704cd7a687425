"""What a trainer measures is found under the name that a goal of the same word is read as."""

from __future__ import annotations

import pytest

from trainwright.trainer.config.goal import corrected_goal
from trainwright.trainer.frameworks.attributes import named as of_transformers
from trainwright.trainer.frameworks.lightning.hooks import named as of_lightning

pytestmark = pytest.mark.requirement("TRAIN-7")


@pytest.mark.parametrize("name", ["eval_macro_f1", "eval_acc", "eval_loss", "eval_my_score"])
def test_a_goal_in_the_words_of_compute_metrics_is_measured(name: str) -> None:
    for asked in (name, name.removeprefix("eval_")):
        goal, _ = corrected_goal({"metric": asked, "direction": "maximize", "target": 0.5})
        assert of_transformers({name: 0.5, "eval_runtime": 3.0, "epoch": 1.0}) == {goal["metric"]: 0.5}


@pytest.mark.parametrize("name", ["val/acc", "val_acc_epoch", "valid_f1_score", "val_own"])
def test_a_goal_in_the_words_of_a_module_is_measured(name: str) -> None:
    goal, _ = corrected_goal({"metric": name.removesuffix("_epoch"), "direction": "maximize", "target": 0.5})
    assert of_lightning({name: 0.5, "train_loss_step": 1.0}) == {goal["metric"]: 0.5}


def test_two_names_of_one_metric_are_both_kept() -> None:
    measured = {"eval_acc": 0.5, "eval_accuracy": 0.6}
    assert of_transformers(measured) == {"acc": 0.5, "accuracy": 0.6}
