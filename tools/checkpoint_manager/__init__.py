"""Checkpoints of a run, and the export of the best one."""

from trainwright.tools.checkpoint_manager.listing import CheckpointList, export_model, list_checkpoints
from trainwright.tools.checkpoint_manager.pruning import PruneAnswer, finish_pruning, prune
