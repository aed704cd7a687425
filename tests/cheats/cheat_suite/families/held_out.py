"""Training on rows of the validation or test split."""

from __future__ import annotations

from functools import partial

from tests.worlds.flowers import CONFIG, MODEL

from cheat_suite.case import cheat
from cheat_suite.scene import Scene

leaked = partial(cheat, by="code", at="empty", expected="detected", shows=("REPRO-4", "PHASE-2"))
SHARED = r"planning\.data_fingerprinted: .*[1-9][0-9]* samples shared between splits"
COPIED = r"planning\.data_fingerprinted: .*[1-9][0-9]* samples of train almost equal one of test"
BUILD = """
import torch
from torch.utils.data import TensorDataset


def build(config, context):
    lines = open(context.path("iris.csv")).read().split()[1:]
    rows = torch.tensor([[float(value) for value in line.split(",")] for line in lines])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    splits = {"train": rows[:90], "validation": rows[90:120], "test": rows[120:]}
    LEAK
    data = {name: TensorDataset(part[:, :4], part[:, 4].long()) for name, part in splits.items()}
    told = {"loss": "cross_entropy", "returns": "output", "metrics": ["accuracy"], "batch_size": 32}
    return {"model": Net(), **told, **data}
"""


def _task(scene: Scene, leak: str) -> None:
    scene.write_code("leaking.py", MODEL + BUILD.replace("LEAK", leak))
    config = {key: value for key, value in CONFIG.items() if key not in {"model", "data"}}
    scene.only_project(config | {"task": {"use": "leaking.py:build"}})
    scene.train()


@leaked(rule=SHARED)
def train_on_validation(scene: Scene) -> None:
    """Put the validation rows among the training rows."""
    _task(scene, 'splits["train"] = torch.cat([splits["train"], splits["validation"]])')


@leaked(rule=SHARED)
def train_on_test(scene: Scene) -> None:
    """Put the test rows among the training rows."""
    _task(scene, 'splits["train"] = torch.cat([splits["train"], splits["test"]])')


@leaked(rule=SHARED)
def validate_on_train(scene: Scene) -> None:
    """Validate on rows that were trained on."""
    _task(scene, 'splits["validation"] = splits["train"][:30]')


@leaked(rule=COPIED)
def altered_test_rows(scene: Scene) -> None:
    """Put the test rows among the training rows, their last digit altered."""
    _task(scene, 'splits["train"] = torch.cat([splits["train"], splits["test"] + 1e-5])')


@leaked(rule=r"planning\.data_volume: .*validation 30 \(1 different\)")
def copied_validation(scene: Scene) -> None:
    """Fill a validation split up with copies of the one row that the model gets right."""
    _task(scene, 'splits["validation"] = splits["validation"][:1].repeat(30, 1)')


@leaked(rule=r"among others: its figures depend on which rows share a batch")
def answers_by_neighbours(scene: Scene) -> None:
    """Average each answer with that of the row before it, where the file is sorted by its target."""
    scene.write_code("smooth.py", MODEL.replace("self.layers(rows)", "self.layers((rows + rows.roll(1, 0)) / 2)"))
    scene.only_project(CONFIG | {"model": {"use": "smooth.py:Net"}})
    scene.train()
