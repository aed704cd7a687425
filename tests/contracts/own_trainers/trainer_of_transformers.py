"""A Trainer of transformers that draws, from generators of its own too, and keeps something at every step."""

import numpy as np
import torch
from transformers import Trainer, TrainingArguments

MADE = []
"""How often the function was called."""


class Noisy(torch.utils.data.Dataset):
    """Points with a new draw at each reading."""

    def __init__(self, first, last, noise):
        self.x = torch.randn(60, 4, generator=torch.Generator().manual_seed(7))[first:last]
        self.y, self.noise = (self.x[:, 0] > 0).long(), noise
        self.rng = np.random.default_rng(3)  # a generator of its own

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return {"x": self.x[index] + self.noise * (torch.randn(4) + self.rng.random()), "labels": self.y[index]}


class Net(torch.nn.Module):
    """A layer with dropout, called as Trainer calls models."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))

    def forward(self, x, labels=None):
        logits = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Own(Trainer):
    """Keeps a moving loss between steps, which the next step depends on; from step `bad_from` on it is not a number."""

    moving, bad_from = 0.0, None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.drawing = torch.Generator().manual_seed(5)

    def compute_loss(self, *args, **kwargs):
        found = super().compute_loss(*args, **kwargs)
        if not self.model.training:
            return found
        scaled = found * (1 + 0.01 * self.moving + 0.01 * torch.rand((), generator=self.drawing))
        self.moving = 0.9 * self.moving + 0.1 * scaled.item()
        is_bad = self.bad_from is not None and self.state.global_step + 1 >= self.bad_from
        return scaled * float("nan") if is_bad else scaled


def make_trainer(epochs=2, bad_from=None, closure=False):
    """Return the trainer and its test data."""
    MADE.append(True)
    arguments = TrainingArguments(
        output_dir="out", num_train_epochs=epochs, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        learning_rate=0.01, report_to=[], use_cpu=True, save_strategy="no", remove_unused_columns=False,
    )  # fmt: skip
    model = Net()
    optimizers = (torch.optim.LBFGS(model.parameters()), None) if closure else (None, None)
    trainer = Own(
        model, arguments, train_dataset=Noisy(0, 40, 0.1), eval_dataset=Noisy(40, 50, 0.0), optimizers=optimizers
    )
    trainer.bad_from = bad_from
    return trainer, Noisy(50, 60, 0.0)
