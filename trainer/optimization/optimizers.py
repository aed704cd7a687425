"""Optimizers of a run, built from the configuration's section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.optimization.builders import BUILDERS, FUSED, build_muon
from trainwright.trainer.optimization.optimizer_sections import MuonSection, OptimizerSection
from trainwright.trainer.optimization.parameters import Setting, settings_of, to_groups


def build_optimizers(
    model: nn.Module,
    section: OptimizerSection,
    groups: list[dict[str, Any]] | None = None,
    *,
    thawing: Sequence[str] = (),
    fused: bool = False,
    own: Sequence[Setting] = (),
) -> dict[str, Optimizer]:
    """Return the optimizers of the configuration by name: one, but for muon, which has AdamW beside it.

    Args:
        groups: the user's own parameter groups, with any options of the optimizer (`lr`, `weight_decay`, ...).
        thawing: names of parameters that are frozen by now and trained later.
        own: parameters beside the model's, those of the objective.
        fused: use the kernels that can skip an update on the device (CUDA), where the optimizer has them.

    Raises:
        ConfigurationError: a pattern matches nothing, a package is missing, or there is nothing to train.
    """
    _require_one_division(section, groups)
    try:
        settings = [*settings_of(model, section, thawing), *own]
        if isinstance(section, MuonSection):
            return build_muon(section, settings, model, fused=fused)
        kernels = {"fused": True} if fused and section.name in FUSED else {}
        given = to_groups(settings) if groups is None else [*groups, *to_groups(own)]
        return {"optimizer": BUILDERS[section.name](section, given, **kernels)}
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"The optimizer cannot be built: {error}.",
            remedy="The model needs parameters that require gradients; check param_groups.",
        ) from error


def _require_one_division(section: OptimizerSection, groups: list[dict[str, Any]] | None) -> None:
    """Refuse to divide the parameters twice."""
    if groups is None:
        return
    if section.name == "muon" or section.groups or section.layer_decay is not None:
        key = "optimizer.name muon" if section.name == "muon" else "optimizer.groups or optimizer.layer_decay"
        raise ConfigurationError(
            f"The task returns `param_groups`, and the configuration divides the parameters too ({key}).",
            remedy="Leave out one of the two.",
        )
