"""Built-in losses by name, what each asks of outputs and targets, and what some measure on the train split first."""

from trainwright.trainer.losses.built_in import BUILT_IN, built_in_loss
from trainwright.trainer.losses.fit import check_fit, check_labels, measured_on_train
from trainwright.trainer.losses.loss import Loss

__all__ = ["BUILT_IN", "Loss", "built_in_loss", "check_fit", "check_labels", "measured_on_train"]
