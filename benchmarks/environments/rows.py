"""The environments: combinations that people have, each with the project that its runs train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TABLE: dict[str, Any] = {
    "model": {"use": "net.py:Net", "args": {"columns": 12}},
    "data": {"use": "csv", "args": {"path": "rows.csv", "target": "left"}},
    "metrics": ["accuracy"],
}
READER: dict[str, Any] = {
    "model": {"use": "reader.py:Reader"},
    "data": {"use": "reader.py:sentences", "split": {"validation": 0.2, "test": 0.2}},
    "metrics": ["accuracy"],
    "optimizer": {"learning_rate": 3e-3},
}
COURSE = {**READER, "data": {**READER["data"], "use": "reader.py:dataset"}}
LIGHTNING: dict[str, Any] = {"trainer": {"use": "train.py:make"}}
LIGHTNING_GOAL = {"metric": "val_accuracy", "direction": "maximize", "target": 0.6}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
KILLED = {
    "training": {"epochs": 30},
    "checkpoints": {"checkpoint_every_n_steps": 20},
    "loader": {"batch_size": 16},
    "early_stopping": {"enabled": False},
}
"""Of every project but a library's own trainer: long enough to be killed in."""
OLDEST = (
    "numpy==1.26.0", "pydantic==2.9.2", "pyarrow==15.0.2", "cryptography==42.0.8", "filelock==3.13.4",
    "fsspec==2024.2.0", "matplotlib==3.8.0",
    "nvidia-ml-py==12.535.161", "onnx==1.16.2", "onnxruntime==1.18.1", "pillow==10.0.1", "psutil==5.9.8",
    "pyyaml==6.0.1", "safetensors==0.4.5", "scikit-learn==1.3.2",
    "scipy==1.11.4", "tensorboard==2.15.2", "setuptools<75",
)  # fmt: skip
"""The lowest releases of the extras `worker` and `export` that an environment may have."""


@dataclass(frozen=True)
class Row:
    """An environment, and what is trained in it."""

    name: str
    python: str
    packages: tuple[str, ...]
    project: str
    """Folder below projects/."""
    config: dict[str, Any]
    made: str = "venv"
    """venv, uv (a project with a lock) or conda (a prefix without pip)."""
    goal: dict[str, Any] = field(default_factory=lambda: GOAL)


ROWS = (
    Row("oldest", "3.10", ("torch==2.4.1", *OLDEST), "table", TABLE),
    Row(
        "transformers-4-44", "3.10",
        ("torch==2.4.1", "numpy==1.26.4", "transformers==4.44.2", "scikit-learn==1.4.2", "pandas==2.2.3"),
        "reader", READER,
    ),
    Row(
        "lightning-2-2", "3.11", ("torch==2.4.1", "lightning==2.2.5", "numpy<2", "setuptools<70"),
        "lightning", LIGHTNING, goal=LIGHTNING_GOAL,
    ),
    Row(
        "course", "3.12",
        ("torch==2.5.1", "transformers==4.48.3", "datasets==3.2.0", "accelerate==1.2.1", "evaluate==0.4.3"),
        "reader", COURSE,
    ),
    Row("uv", "3.12", ("torch==2.8.0", "numpy", "pandas"), "table", TABLE, made="uv"),
    Row("conda", "3.12", ("torch==2.8.0", "numpy", "scikit-learn"), "table", TABLE, made="conda"),
    Row("newest", "3.13", ("torch", "transformers"), "reader", READER),
)  # fmt: skip
"""Those with one torch beside each other: it is fetched once."""
