"""Hugging Face's Trainer on the same work."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from clock import Moment, now
from torch import Tensor, nn
from workload import CLIP_NORM, LEARNING_RATE, LOG_EVERY, Gathered, Workload


class ReturnsLoss(nn.Module):
    """The model in the form that the Trainer expects."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss and the logits."""
        logits = self.model(inputs)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def by_name(batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Name the parts of a batch that is whole already."""
    return {"inputs": batch[0], "labels": batch[1]}


def train(workload: Workload, number: int) -> list[Moment]:
    """Train one epoch; return the moment after each step."""
    with TemporaryDirectory() as scratch:
        return run(workload, number, Path(scratch))


def run(workload: Workload, number: int, folder: Path) -> list[Moment]:
    """Train with what the engine has on too: clipping, schedule, gradient norm, TensorBoard."""
    from transformers import TrainerCallback

    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder / "tensorboard")
    ends: list[Moment] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        """Notes the end of each step."""

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the callback's form
            ends.append(now())

    trainer = make_trainer(workload, number, folder)
    trainer.add_callback(Clock())
    trainer.log = _quietly(trainer.log)
    trainer.train()
    torch.set_grad_enabled(True)
    return ends


def make_trainer(workload: Workload, number: int, folder: Path, eval_dataset: Any = None) -> Any:
    """Return the Trainer on the work, as its user would write it."""
    from transformers import Trainer, TrainingArguments
    from transformers.utils import logging

    logging.set_verbosity_error()
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=1, per_device_train_batch_size=workload.batch_size,
        learning_rate=LEARNING_RATE, weight_decay=0.01, lr_scheduler_type="cosine", warmup_steps=workload.warmup_steps,
        max_grad_norm=CLIP_NORM, logging_steps=LOG_EVERY, report_to=["tensorboard"], save_strategy="no", seed=number,
        use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False, remove_unused_columns=False,
    )  # fmt: skip
    model = ReturnsLoss(workload.model())
    return Trainer(
        model, arguments, data_collator=by_name, train_dataset=Gathered(workload.tensors), eval_dataset=eval_dataset
    )


def _quietly(log: Any) -> Any:
    """Log as always, but for the line on the terminal."""
    import contextlib
    import io

    def quiet(*args: Any, **kwargs: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            log(*args, **kwargs)

    return quiet
