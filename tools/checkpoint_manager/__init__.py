"""What checkpoints a run has, exporting the best of them, and the registry of exported models."""

from trainwright.tools.checkpoint_manager.export import export_model
from trainwright.tools.checkpoint_manager.listing import CheckpointList, list_checkpoints
from trainwright.tools.checkpoint_manager.registry import ModelRegistry, RegistryEntry, list_models, register_model

__all__ = [
    "CheckpointList",
    "ModelRegistry",
    "RegistryEntry",
    "export_model",
    "list_checkpoints",
    "list_models",
    "register_model",
]
