"""Checkpoints of a run, and the export of the best one."""

from trainwright.tools.checkpoint_manager.listing import CheckpointList, export_model, list_checkpoints
from trainwright.tools.checkpoint_manager.pruning import PruneAnswer, finish_pruning, prune

__all__ = [
    "CheckpointList",
    "PruneAnswer",
    "export_model",
    "finish_pruning",
    "list_checkpoints",
    "prune",
]
