"""Silent errors in user code that the suite injects, after the real ones that TrainCheck (OSDI 2025) collects.

Each is a task of code/silent.py. `first_effect` is the step whose update or measurement is the first to be wrong; what
is refused before training has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BATCHES = 8
"""Of an epoch of these tasks."""
EPOCHS = 3


@dataclass(frozen=True)
class SilentFault:
    """One kind of silent error.

    Attributes:
        kind: the function of code/silent.py that has it.
        names: diagnostics that name the cause.
        first_effect: step; None where no run begins.
    """

    kind: str
    names: tuple[str, ...]
    first_effect: int | None = 1

    def values(self, seed: int) -> dict[str, Any]:
        """Return the configuration of a run that has it."""
        return {
            "task": {"use": f"silent.py:{self.kind}"},
            "optimizer": {"name": "adam", "learning_rate": 0.01},
            "training": {"epochs": EPOCHS},
            "logging": {"tensorboard": False, "every_n_steps": 1},
            "early_stopping": {"enabled": False},
            "monitoring": {"on_critical": "tell"},
            "seed": seed,
        }


FROZEN, UNHELD = ("frozen_parameters",), ("optimizer_without_parameters",)
INPUT, EVALUATES = ("wrong_loss_input",), ("validation_in_train_mode",)
FAULTS = (
    SilentFault("zero_grad_missing", ("gradients_not_zeroed",), 2),
    SilentFault("zero_grad_before_step", FROZEN),
    SilentFault("step_missing", FROZEN),
    SilentFault("only_the_head", UNHELD),
    SilentFault("head_replaced_after_optimizer", UNHELD, None),
    SilentFault("clipped_to_nothing", ("gradients_clipped_away",)),
    SilentFault("scheduler_each_step", ("scheduler_misused",), 2),
    SilentFault("cosine_of_epochs", ("scheduler_misused",), 3),
    SilentFault("rate_zero", ("learning_rate_zero",)),
    SilentFault("layers_in_a_list", UNHELD),
    SilentFault("features_detached", FROZEN),
    SilentFault("encoder_without_gradients", FROZEN),
    SilentFault("loss_made_anew", ("loss_without_gradient", "frozen_parameters")),
    SilentFault("classes_rounded", FROZEN),
    SilentFault("inputs_ignored", ("constant_output",)),
    SilentFault("in_evaluation", ("training_in_eval_mode",)),
    SilentFault("left_in_evaluation", ("training_in_eval_mode",), 3),
    SilentFault("validated_in_training", EVALUATES, BATCHES),
    SilentFault("dropout_always_on", ("dropout_in_validation",), BATCHES),
    SilentFault("loss_summed", ("wrong_loss_reduction",)),
    SilentFault("squares_summed", ("wrong_loss_reduction",)),
    SilentFault("softmax_twice", INPUT),
    SilentFault("logarithm_missing", INPUT),
    SilentFault("softmax_over_the_batch", INPUT),
    SilentFault("sigmoid_twice", INPUT),
    SilentFault("broadcast_targets", ("loss_broadcast",)),
    SilentFault("labels_permuted", ("shuffled_labels",)),
    SilentFault("labels_sorted_by_collate", ("shuffled_labels",)),
    SilentFault("sorted_and_not_shuffled", ("labels_in_blocks",)),
    SilentFault("stream_in_one_order", ("constant_order",), BATCHES + 1),
    SilentFault("validation_not_scaled", ("preprocessing_mismatch",), BATCHES),
    SilentFault("scaled_in_place", ("preprocessing_mismatch",), None),
)

SILENT: dict[str, Callable[[int], dict[str, Any]]] = {fault.kind: fault.values for fault in FAULTS}
"""Configurations by kind and seed."""
