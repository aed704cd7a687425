"""A search as a person writes it without us: Optuna, two processes and one journal; `python bare.py FOLDER ORDER`.

Needs torch and Optuna alone (transformers for the text), so that another library's environment can run `train` too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

PROCESSES = 2
STARTUP_TRIALS = 6
"""As ours: tools/hyperparameter_tuner/methods/question.py."""


@dataclass(frozen=True)
class Plain:
    """A task as `tasks.write_plain` left it."""

    sizes: dict[str, Any]
    rows: dict[str, Tensor]

    @classmethod
    def read(cls, folder: Path) -> Plain:
        """Return the task in the folder."""
        return cls(json.loads((folder / "plain.json").read_text()), torch.load(folder / "plain.pt"))

    def model(self) -> nn.Module:
        """Return the network."""
        sizes, targets = self.sizes["model"], self.rows["train_targets"]
        if "bert" in sizes:
            from transformers import AutoConfig, AutoModelForSequenceClassification

            config = AutoConfig.for_model(**sizes["bert"])
            network: nn.Module = AutoModelForSequenceClassification.from_config(config)
            return network
        width, layers = self.rows["train_inputs"][0].numel(), [nn.Flatten()]
        for hidden in sizes["hidden"]:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        return nn.Sequential(*layers, nn.Linear(width, int(targets.max()) + 1))

    def logits(self, model: nn.Module, split: str, rows: Tensor) -> Tensor:
        """Return the model's outputs of some rows, (rows, classes); texts are cut to the longest of them."""
        inputs = self.rows[f"{split}_inputs"][rows]
        if f"{split}_mask" not in self.rows:
            found: Tensor = model(inputs)
            return found
        mask = self.rows[f"{split}_mask"][rows]
        longest = int(mask.sum(1).max())
        given: Tensor = model(input_ids=inputs[:, :longest], attention_mask=mask[:, :longest]).logits
        return given

    def batches(self, split: str, *, shuffle: bool) -> list[Tensor]:
        """Return the row numbers of an epoch's batches."""
        size = len(self.rows[f"{split}_targets"])
        order = torch.randperm(size) if shuffle else torch.arange(size)
        return list(order.split(self.sizes["batch_size"]))


def train(
    plain: Plain, learning_rate: float, weight_decay: float, best_path: Path, report: Callable[[int, float], None]
) -> dict[str, Any]:
    """Train once, validating and keeping the best weights after each epoch; return accuracy and what was done."""
    torch.manual_seed(42)
    model = plain.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay)
    best, steps = -1.0, 0
    for epoch in range(1, plain.sizes["epochs"] + 1):
        model.train()
        for rows in plain.batches("train", shuffle=True):
            loss = nn.functional.cross_entropy(plain.logits(model, "train", rows), plain.rows["train_targets"][rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        accuracy = validate(plain, model)
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), best_path)
        report(epoch, accuracy)
    return {"accuracy": best, "epochs": plain.sizes["epochs"], "steps": steps}


@torch.no_grad()
def validate(plain: Plain, model: nn.Module) -> float:
    """Return the share of validation rows that are right."""
    model.eval()
    right = sum(
        int((plain.logits(model, "validation", rows).argmax(1) == plain.rows["validation_targets"][rows]).sum())
        for rows in plain.batches("validation", shuffle=False)
    )
    return right / len(plain.rows["validation_targets"])


def sampler(seed: int) -> Any:
    """Return TPE as ours is set."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True, constant_liar=True
        )


def work(folder: Path, order: dict[str, Any], number: int) -> None:
    """Carry out this process's share of the trials."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    plain, place = Plain.read(folder), Path(order["place"])

    def objective(trial: optuna.Trial) -> float:
        drawn = {key.split(".")[-1]: trial.suggest_float(key, one["low"], one["high"], log=one["log"])
                 for key, one in plain.sizes["space"].items()}  # fmt: skip
        done = train(plain, **drawn, best_path=place / f"best-{trial.number}.pt",
                     report=lambda epoch, accuracy: trial.report(accuracy, epoch))  # fmt: skip
        trial.set_user_attr("steps", done["steps"])
        return float(done["accuracy"])

    study = optuna.create_study(
        study_name="search", direction="maximize", load_if_exists=True, sampler=sampler(order["seed"] * 100 + number),
        storage=JournalStorage(JournalFileBackend(str(place / "journal.log"))), pruner=optuna.pruners.NopPruner(),
    )  # fmt: skip
    share = order["trials"] // PROCESSES + (number < order["trials"] % PROCESSES)
    study.optimize(objective, n_trials=share)


def main(folder: str, given: str, number: str | None = None) -> int:
    """Start the processes and wait for them; or be one."""
    if number is not None:
        work(Path(folder), json.loads(given), int(number))
        return 0
    command = [sys.executable, __file__, folder, given]
    workers = [subprocess.Popen([*command, str(each)], env=os.environ) for each in range(PROCESSES)]
    return max(worker.wait() for worker in workers)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
