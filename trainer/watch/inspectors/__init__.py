"""Inspectors of the steps, one file each."""

from __future__ import annotations

from trainwright.trainer.watch.inspector import Make
from trainwright.trainer.watch.inspectors.activations import Activations
from trainwright.trainer.watch.inspectors.inputs import Inputs
from trainwright.trainer.watch.inspectors.layer_norms import LayerNorms
from trainwright.trainer.watch.inspectors.silent_errors import SilentErrors

INSPECTORS: tuple[Make, ...] = (LayerNorms, Activations, Inputs, SilentErrors)
"""Made once for an attempt of a run, in this order."""
