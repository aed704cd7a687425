"""Checkpoints of a run, the export of the best one, and the registry of exported models."""

from trainwright.tools.checkpoint_manager.listing import CheckpointList, export_model, list_checkpoints
from trainwright.tools.checkpoint_manager.pruning import PruneAnswer, finish_pruning, prune
from trainwright.tools.checkpoint_manager.registry import ModelRegistry, RegistryEntry, list_models, register_model

__all__ = [
    "CheckpointList",
    "ModelRegistry",
    "PruneAnswer",
    "RegistryEntry",
    "export_model",
    "finish_pruning",
    "list_checkpoints",
    "list_models",
    "prune",
    "register_model",
]
