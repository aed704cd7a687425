"""The three tasks: what each contestant searches, on which data, and how the plain scripts get those data.

No searched key changes what an epoch costs, so that every trial of a task is the same work whatever is suggested.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SPACE: dict[str, dict[str, Any]] = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 3e-2, "log": True},
    "optimizer.weight_decay": {"type": "float", "low": 1e-5, "high": 0.3, "log": True},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9999}
BERT = {
    "model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "max_position_embeddings": 64,
}  # fmt: skip
TEXTS, ROWS, COLUMNS = 1200, 8000, 10


@dataclass(frozen=True)
class Task:
    """One task: a model on data, trained for some epochs."""

    name: str
    model: dict[str, Any]
    data: dict[str, Any]
    epochs: int
    batch_size: int = 32

    def config(self, code_root: Path) -> dict[str, Any]:
        """Return the configuration, which leaves everything else as it is by default."""
        return {
            "code_root": str(code_root),
            "model": self.model,
            "data": self.data,
            "metrics": ["accuracy"],
            "selection": {"metric": "accuracy", "direction": "maximize"},
            "loader": {"batch_size": self.batch_size},
            "optimizer": {"learning_rate": 1e-3, "decay_norms_and_biases": True},
            "schedule": {"name": "constant"},
            "early_stopping": {"enabled": False},
            "training": {"epochs": self.epochs},
        }

    def prepare(self, folder: Path) -> None:
        """Write the task's data into the folder, as its user has them, and for plain scripts (`bare.py`)."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.name == "text":
            write_texts(folder / "tickets.csv")
        elif self.name == "table":
            write_table(folder / "churn.csv")
        write_plain(self, folder)


TASKS = {
    task.name: task
    for task in (
        Task("digits", {"use": "mlp", "args": {"hidden": [128, 64]}}, {"use": "digits"}, epochs=12),
        Task(
            "text",
            {"use": "transformers", "args": {"config": BERT}},
            {
                "use": "csv",
                "args": {
                    "path": "tickets.csv", "text": "text", "target": "topic", "tokenizer": "bpe:400", "max_length": 48,
                },
            },
            epochs=4,
        ),
        Task(
            "table",
            {"use": "mlp", "args": {"hidden": [64, 32]}},
            {"use": "csv", "args": {"path": "churn.csv", "target": "left"}},
            epochs=12,
        ),
    )
}  # fmt: skip


def write_texts(path: Path) -> None:
    """Write short tickets of four topics, as the pattern of text classification has them."""
    source = ROOT / "skills" / "training-patterns" / "generate_example.py"
    spec = importlib.util.spec_from_file_location("generate_example", source)
    assert spec is not None  # noqa: S101 - a file of this repository
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = module.labelled(random.Random(0), TEXTS)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "topic"])
        writer.writeheader()
        writer.writerows(rows)


def write_table(path: Path) -> None:
    """Write a table of numbers and a yes or no that follows from two of their products, beside noise."""
    draw = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"feature_{number}" for number in range(COLUMNS)), "left"])
        for _ in range(ROWS):
            row = [round(draw.gauss(0, 1), 4) for _ in range(COLUMNS)]
            logit = 2 * row[0] * row[1] - 1.5 * row[2] * row[3] + row[4]
            writer.writerow([*row, "yes" if draw.random() < 1 / (1 + math.exp(-logit)) else "no"])


def write_plain(task: Task, folder: Path) -> None:
    """Write `plain.pt` and `plain.json`: the very rows of our splits as tensors, and sizes, for a script without us."""
    import torch

    from trainwright.trainer.assembly.build import build_work
    from trainwright.trainer.assembly.loaders import make_loader
    from trainwright.trainer.config import parse_config
    from trainwright.trainer.user_code.context import Context

    config = parse_config(task.config(folder))
    work = build_work(config, folder, Context(config.seed, folder, "cpu"), keeps_test=False)
    arrays = {}
    for split in ("train", "validation"):
        batches = list(make_loader(config, work, split).batches(0))
        arrays |= {f"{split}_{name}": tensor for name, tensor in joined(batches).items()}
    torch.save(arrays, folder / "plain.pt")
    model = dict(task.model["args"])
    if "config" in model:
        classes = int(arrays["train_targets"].max()) + 1
        model = {"bert": model["config"] | {"vocab_size": work.splits.text.vocabulary_size, "num_labels": classes}}
    sizes = {"model": model, "epochs": task.epochs, "batch_size": task.batch_size, "space": SPACE}
    (folder / "plain.json").write_text(json.dumps(sizes))


def joined(batches: list[Any]) -> dict[str, Any]:
    """Return the batches' rows one after the other; texts padded to the longest, (rows, tokens)."""
    import torch

    if not isinstance(batches[0], dict):
        inputs, targets = zip(*batches, strict=True)
        return {"inputs": torch.cat(inputs), "targets": torch.cat(targets)}
    longest = max(batch["input_ids"].shape[1] for batch in batches)
    found = {}
    for name, key in (("inputs", "input_ids"), ("mask", "attention_mask")):
        padded = [torch.nn.functional.pad(batch[key], (0, longest - batch[key].shape[1])) for batch in batches]
        found[name] = torch.cat(padded)
    return found | {"targets": torch.cat([batch["labels"] for batch in batches])}
