"""What users of other libraries hand over in place of a network, told apart by names, without importing them."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.errors import ConfigurationError

DOCUMENT = "configs/your_code.md"
PARTS_OF_A_TRAINER = (
    'Hand over its parts: build returns {"model": trainer.model, "train": trainer.train_dataset, "validation": '
    'trainer.eval_dataset, "collate": trainer.data_collator, "returns": ".loss"}; epochs, rate and batch size stand in '
    "the configuration."
)
NETWORK_OF_LIGHTNING = (
    "Hand over its network as the model with loss and optimizer of the configuration; or a task that returns the "
    'module as `model` with `step`: def step(model, batch, context): return {"loss": model.training_step(batch, 0)}.'
)
NO_STEPS = (
    "It is not trained step by step, so no run can train it today: train it in a script of yours, and take its score "
    "as the goal that a network here has to beat, for example model: {use: mlp} on the same data."
)
LIBRARIES: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (("transformers",), "Trainer", "a Trainer of transformers", PARTS_OF_A_TRAINER),
    (("lightning", "pytorch_lightning"), "Trainer", "a Trainer of Lightning", NETWORK_OF_LIGHTNING),
    (("lightning", "pytorch_lightning"), "LightningModule", "a LightningModule", NETWORK_OF_LIGHTNING),
    (("sklearn",), "BaseEstimator", "an estimator of scikit-learn", NO_STEPS),
    (("xgboost", "lightgbm", "catboost"), "", "a model of {package}", NO_STEPS),
)
"""Packages, the class's name in its ancestry (any, where empty), what it is called, and what can be done today."""


def require_network(value: Any, what: str) -> None:
    """Refuse what another library trains.

    Raises:
        ConfigurationError: says what it is and what can be done with it today.
    """
    kind = value if isinstance(value, type) else type(value)
    for packages, name, called, remedy in LIBRARIES:
        for ancestor in kind.__mro__:
            package = str(ancestor.__module__).partition(".")[0]
            if package in packages and (not name or ancestor.__name__ == name):
                raise ConfigurationError(
                    f"{what} gave {called.format(package=package)} ({kind.__name__}), and a run trains a "
                    "torch.nn.Module.",
                    remedy=remedy,
                    document=DOCUMENT,
                )
