"""The runs that are killed: each adds something that has to survive. Configurations are those a user would write."""

from __future__ import annotations

from typing import Any

COMMON: dict[str, Any] = {
    "model": {"use": "project.py:network"},
    "data": {"use": "project.py:data", "args": {"augment": True}},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 8},
    "optimizer": {"learning_rate": 3e-3},
    "training": {"epochs": 3},
    "checkpoints": {"checkpoint_every_n_steps": 4, "checkpoint_every_n_epochs": 2},
    "early_stopping": {"patience_epochs": 2},
    "logging": {"every_n_steps": 3, "tensorboard": False},
}

SCENARIOS: dict[str, dict[str, Any]] = {
    "augmented data, batch norm, dropout": {},
    "two loader workers": {"loader": {"batch_size": 8, "num_workers": 2}},
    "accumulation, clipping, one-cycle": {
        "training": {"epochs": 3, "accumulation_steps": 2, "clip_norm": 1.0},
        "schedule": {"name": "one_cycle"},
    },
    "plateau schedule, early stopping": {
        "schedule": {"name": "plateau", "patience_epochs": 1},
        "training": {"epochs": 5},
        "optimizer": {"learning_rate": 0.3},
    },
    "Schedule-Free": {"optimizer": {"name": "schedule_free_adamw"}, "schedule": {"name": "constant"}},
    "carried hidden value (context.state)": {
        "model": None,
        "data": None,
        "task": {"use": "project.py:carried"},
    },
    "iterable data": {"data": {"use": "project.py:data", "args": {"stream": True}}},
    "bf16": {"training": {"epochs": 3, "precision": "bf16"}},
    "fp16 with loss scaling": {"training": {"epochs": 3, "precision": "fp16"}},
    "EMA of the weights": {"weight_averaging": {"name": "ema"}},
    "SWA, cosine restarts": {"weight_averaging": {"name": "swa"}, "schedule": {"name": "cosine_restarts"}},
    "curriculum": {"curriculum": {"use": "centroid", "full_after_fraction": 0.7}},
    "mixup": {"mixing": {"name": "mixup"}},
    "adversarial (PGD)": {"objective": {"name": "adversarial", "epsilon": 0.1, "steps": 3}},
    "contrastive, linear probe": {"objective": {"name": "contrastive"}, "metrics": []},
    "distillation": {"objective": {"name": "distillation", "teacher": {"use": "project.py:network"}}},
    "two processes (DDP)": {"distributed": {"processes": 2}},
    "two processes (FSDP2)": {"distributed": {"processes": 2, "strategy": "fsdp2"}},
}

OWN_TRAINERS: dict[str, dict[str, Any]] = {
    "trainer": {"trainer": {"use": "own_trainers.py:make_trainer"}},
    "sft": {"trainer": {"use": "own_trainers.py:make_sft"}},
    "dpo": {"trainer": {"use": "own_trainers.py:make_dpo"}},
    "grpo": {"trainer": {"use": "own_trainers.py:make_grpo"}},
    "reward": {"trainer": {"use": "own_trainers.py:make_reward"}},
    "kto": {"trainer": {"use": "own_trainers.py:make_kto"}},
    "rloo": {"trainer": {"use": "own_trainers.py:make_rloo"}},
    "lora": {"trainer": {"use": "own_trainers.py:make_lora"}},
    "lightning": {"trainer": {"use": "lightning_project.py:make_trainer"}},
}
"""Trainers of other libraries, as they are, under our worker."""
ALWAYS = ("trainer", "sft", "dpo", "grpo", "lightning")
"""Those that every benchmark kills; the others are killed where they are asked for by name."""

SHARE = {"two processes (DDP)": 0.4, "two processes (FSDP2)": 0.4}
"""Of the kills that other scenarios get: these start slowly, for each process imports torch again."""


def configuration(name: str) -> dict[str, Any]:
    """Return the whole configuration of a scenario."""
    if name in OWN_TRAINERS:
        return {**OWN_TRAINERS[name], "logging": COMMON["logging"]}
    merged = {**COMMON, **SCENARIOS[name]}
    return {key: value for key, value in merged.items() if value is not None}
