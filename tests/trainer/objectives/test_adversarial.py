"""Training on attacked inputs: the attacks themselves, what they cost and bring, and that they resume exactly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.losses import built_in_loss
from trainwright.trainer.objectives.adversarial import Attack
from trainwright.trainer.objectives.sections import AdversarialSection
from trainwright.trainer.objectives.supervised import Supervised

PGD: dict[str, Any] = {"name": "adversarial", "epsilon": 0.15, "clip_range": [0, 1], "steps": 5, "evaluation_steps": 10}
DIGITS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [64]}},
    "data": {"use": "digits"},
    "metrics": ["accuracy"],
    "optimizer": {"learning_rate": 0.01},
    "loader": {"batch_size": 64},
    "training": {"epochs": 10},
}


def section(**values: Any) -> AdversarialSection:
    return AdversarialSection.model_validate({"name": "adversarial", "epsilon": 0.1, **values})


def linear() -> tuple[torch.nn.Module, Any, Supervised]:
    torch.manual_seed(0)
    batch = (torch.rand(16, 6), torch.randint(0, 3, (16,)))
    return torch.nn.Linear(6, 3), batch, Supervised(built_in_loss("cross_entropy", {}), "output")


@pytest.mark.requirement("TRAIN-5")
def test_fgsm_is_one_step_of_size_epsilon_along_the_sign_of_the_gradient() -> None:
    model, batch, objective = linear()
    x = batch[0].clone().requires_grad_()
    objective(model, (x, batch[1])).loss.backward()
    attacked = Attack.for_training(section(attack="fgsm"))(objective, model, batch)
    assert torch.equal(attacked[0], batch[0] + (batch[0] + 0.1 * x.grad.sign() - batch[0]))
    assert attacked[1] is batch[1]


@pytest.mark.requirement("TRAIN-5")
def test_pgd_stays_within_epsilon_and_range_raises_the_loss_and_leaves_the_model_alone() -> None:
    model, batch, objective = linear()
    model = torch.nn.Sequential(model, torch.nn.Dropout(0.5)).train()
    attack = Attack.for_training(section(steps=10, clip_range=[0, 1]))
    weights = model[0].weight.detach().clone()
    attacked = attack(objective, model, batch)[0]
    assert (attacked - batch[0]).abs().max() <= 0.1 + 1e-6
    assert attacked.min() >= 0.0
    assert attacked.max() <= 1.0
    assert model[0].weight.grad is None
    assert torch.equal(model[0].weight, weights)
    assert all(module.training for module in model.modules()), "the mode is as it was"
    model.eval()
    assert objective(model, (attacked, batch[1])).loss > objective(model, batch).loss


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5")
def test_adversarial_training_raises_the_accuracy_under_attack(open_session: Any, trained: Any, judge: Any) -> None:
    """Measured over 3 seeds on digits: 0.57 to 0.59 under PGD after PGD training, 0.12 to 0.15 after plain training."""
    differences = []
    for seed in (0, 1, 2):
        robust = trained(open_session({**DIGITS, "seed": seed, "objective": PGD}))
        plain = trained(open_session({**DIGITS, "seed": seed}))
        ours = judge(robust)
        robust.model.load_state_dict(plain.model.state_dict())  # the same attack, on the plain weights
        differences.append(ours["robust_accuracy"] - judge(robust)["robust_accuracy"])
        assert ours["robust_accuracy"] <= ours["accuracy"]
    assert min(differences) > 0.2, differences


@pytest.mark.requirement("TRAIN-5")
def test_validation_stays_plain_and_gains_the_robust_values(open_session: Any, judge: Any) -> None:
    robust, plain = open_session({**DIGITS, "objective": PGD}), open_session(DIGITS)
    ours, theirs = judge(robust), judge(plain)
    assert {name: ours[name] for name in theirs} == theirs
    assert ours.keys() - theirs.keys() == {"robust_accuracy", "robust_loss"}
    assert ours["robust_loss"] > ours["loss"]
    assert judge(robust) == ours, "the attack on validation is the same each time"


@pytest.mark.requirement("TRAIN-5")
def test_a_number_to_predict_has_a_robust_loss_only(open_session: Any, judge: Any) -> None:
    values = {
        "model": {"use": "mlp"},
        "data": {"use": "diabetes"},
        "loss": "mse",
        "objective": PGD | {"clip_range": None},
    }
    assert judge(open_session(values)).keys() == {"loss", "robust_loss"}
    with pytest.raises(ConfigurationError, match="`selection.metric` = 'robust_accuracy' is not measured"):
        open_session({**values, "selection": {"metric": "robust_accuracy", "direction": "maximize"}})


@pytest.mark.requirement("TRAIN-5")
def test_a_run_may_be_chosen_by_its_robust_accuracy(open_session: Any) -> None:
    open_session({**DIGITS, "objective": PGD, "selection": {"metric": "robust_accuracy", "direction": "maximize"}})


@pytest.mark.requirement("TRAIN-5")
def test_a_step_of_the_users_own_is_attacked_through_its_batch(open_session: Any, judge: Any, root: Any) -> None:
    (root / "steps.py").write_text(
        "import torch\nfrom own import digits, Net\n"
        "def step(model, batch, context):\n"
        "    x, y = batch\n    output = model(x)\n"
        "    context.state['seen'] = context.state.get('seen', 0) + 1\n"
        "    return {'loss': torch.nn.functional.cross_entropy(output, y), 'output': output, 'target': y}\n"
        "def build(config):\n    return {'model': Net(), **digits(), 'step': step}\n"
    )
    session = open_session({"task": {"use": "steps:build"}, "metrics": ["accuracy"], "objective": PGD})
    assert "robust_accuracy" in judge(session)
    assert "seen" in session.context.state, "validating is a step of theirs too"


FAULTS = {
    "`objective.epsilon` = 0": {"epsilon": 0},
    "clip_range must be": {"clip_range": [1, 0]},
    "set objective.name supervised": {"clean_weight": 1.0},
    "did you mean `objective.steps`": {"stepz": 3},
}


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("told", FAULTS)
def test_an_impossible_attack_is_refused_at_once(told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_config({**DIGITS, "objective": {**PGD, **FAULTS[told]}})


@pytest.mark.requirement("TRAIN-5")
def test_inputs_that_cannot_be_changed_by_small_amounts_are_refused(open_session: Any, root: Any) -> None:
    (root / "words.py").write_text(
        "import torch\n"
        "def data():\n    x, y = torch.randint(0, 9, (40, 5)), torch.randint(0, 2, (40,))\n"
        "    return torch.utils.data.TensorDataset(x, y)\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.table = torch.nn.EmbeddingBag(9, 2)\n"
        "    def forward(self, x):\n        return self.table(x)\n"
    )
    with pytest.raises(ConfigurationError, match="input of floating point, and the batch has none") as caught:
        open_session({"model": {"use": "words:Net"}, "data": {"use": "words:data"}, "objective": PGD})
    assert "token numbers" in caught.value.remedy
