"""Lightning's Trainer on the same work."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from clock import Moment, now
from workload import CLIP_NORM, LEARNING_RATE, LOG_EVERY, Gathered, Workload, as_given


def train(workload: Workload, number: int) -> list[Moment]:
    """Train one epoch; return the moment after each step."""
    ends: list[Moment] = []
    with TemporaryDirectory() as scratch:
        trainer, module, loader = parts(workload, number, Path(scratch), ends)
        trainer.fit(module, loader)
    return ends


def parts(workload: Workload, number: int, folder: Path, ends: list[Moment] | None = None) -> tuple[Any, Any, Any]:
    """Return trainer, module and loader, with what the engine has on too: clipping, schedule, TensorBoard.

    Args:
        ends: where the moment after each step goes; the gradient norm is not recorded.
    """
    import lightning

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")

    class Clock(lightning.Callback):  # type: ignore[misc, name-defined]
        """Notes the end of each step."""

        def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the callback's form
            if ends is not None:
                ends.append(now())

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        """The model with its loss and optimizer."""

        def __init__(self) -> None:
            super().__init__()
            self.model = workload.model()

        def training_step(self, batch: Any, index: int) -> Any:  # noqa: ARG002 - the hook's form
            loss = F.cross_entropy(self.model(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=LEARNING_RATE)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, workload.steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    loader = torch.utils.data.DataLoader(
        Gathered(workload.tensors), workload.batch_size, shuffle=True, collate_fn=as_given,
        generator=torch.Generator().manual_seed(number),
    )  # fmt: skip
    board = lightning.pytorch.loggers.TensorBoardLogger(str(folder))
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, gradient_clip_val=CLIP_NORM, log_every_n_steps=LOG_EVERY, logger=board,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[Clock()],
    )  # fmt: skip
    return trainer, Module(), loader
