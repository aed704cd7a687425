"""The two trainers beside this file, stopped by a callback of theirs in the middle of the second epoch."""

import lightning
import module_of_lightning
import trainer_of_transformers
from transformers import TrainerCallback

LAST = 7
"""Of 10 steps, 5 an epoch."""


class OfTransformers(TrainerCallback):
    """Stops as EarlyStoppingCallback does after an evaluation between steps."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= LAST


class OfLightning(lightning.Callback):
    """Stops as EarlyStopping does after a validation between steps."""

    def on_train_batch_end(self, trainer, *args):
        trainer.should_stop = trainer.global_step >= LAST


def make_transformers():
    """Return the trainer and its test data."""
    trainer, test = trainer_of_transformers.make_trainer()
    trainer.add_callback(OfTransformers())
    return trainer, test


def make_lightning():
    """Return trainer, module and data module."""
    trainer, module, data = module_of_lightning.make_trainer()
    trainer.callbacks.append(OfLightning())
    return trainer, module, data
