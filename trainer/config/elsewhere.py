"""Where a key stands that was written in another place, or under the name that other libraries give it."""

from __future__ import annotations

from typing import get_args, get_origin

from pydantic import BaseModel

from trainwright.trainer.config.schema import TrainingConfig

OTHER_NAMES = {
    "optimizer.learning_rate": ("lr", "base_lr", "max_lr", "init_lr", "step_size"),
    "optimizer.weight_decay": ("wd", "l2"),
    "loader.batch_size": ("batch", "bs", "batchsize", "train_batch_size", "per_device_train_batch_size"),
    "loader.num_workers": ("workers", "n_workers", "dataloader_num_workers"),
    "training.epochs": ("epoch", "n_epochs", "num_epochs", "max_epochs", "num_train_epochs"),
    "training.max_steps": ("steps", "num_steps", "iterations"),
    "training.clip_norm": ("grad_clip", "gradient_clip", "gradient_clip_val", "clip_grad_norm", "max_grad_norm"),
    "training.accumulation_steps": ("gradient_accumulation_steps", "grad_accumulation_steps"),
    "early_stopping.patience_epochs": ("patience", "early_stopping_patience"),
    "data.split.validation": ("val_split", "validation_split", "val_size"),
    "data.split.test": ("test_split", "test_size"),
    "seed": ("random_seed", "random_state"),
    "schedule": ("scheduler", "lr_scheduler", "lr_schedule"),
    "data": ("dataset",),
    "model": ("network", "net", "architecture"),
    "loss": ("criterion", "loss_fn", "loss_function"),
    "metrics": ("metric",),
}
"""Our key to what the field's other libraries and papers call it."""


def known_elsewhere(name: str) -> list[str]:
    """Return the dotted keys that an unknown key's last part may mean: by that very name, or by another of theirs."""
    places = [key for key in _keys(TrainingConfig) if key.rpartition(".")[2] == name]
    return places + [key for key, others in OTHER_NAMES.items() if name in others]


def is_section(key: str) -> bool:
    """Return whether keys stand below this one."""
    return any(other.startswith(f"{key}.") for other in _keys(TrainingConfig))


def _keys(model: type[BaseModel], path: str = "") -> list[str]:
    """Return every key once; what lies in lists, and under free names, has no place of its own."""
    found: dict[str, None] = {}
    for name, about in model.model_fields.items():
        key = f"{path}{name}"
        found[key] = None
        found |= dict.fromkeys(inner for section in _sections(about.annotation) for inner in _keys(section, f"{key}."))
    return list(found)


def _sections(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    inner = () if get_origin(annotation) in {list, dict, tuple} else get_args(annotation)
    return [section for argument in inner for section in _sections(argument)]
