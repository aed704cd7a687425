"""Muon, momentum orthogonalised by Newton-Schulz steps: Jordan et al. 2024 (kellerjordan.github.io/posts/muon).

The scaling of rates by shape that lets AdamW's rate serve both parts: Liu et al. 2025, arXiv:2502.16982.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.optimization.optimizer_sections import MuonSection
from trainwright.trainer.optimization.parameters import Setting, matching, to_groups


def build_muon(
    section: MuonSection, settings: list[Setting], model: nn.Module, *, fused: bool = False
) -> dict[str, Optimizer]:
    """Return torch's Muon for the hidden matrices, and AdamW for embeddings, the output layer and the rest.

    Raises:
        ConfigurationError: the model has no hidden matrix.
    """
    names = for_adamw(section, model)
    matrices = [setting for setting in settings if setting.parameter.dim() == 2 and setting.name not in names]
    others = [setting for setting in settings if setting.parameter.dim() != 2 or setting.name in names]
    if not matrices:
        raise ConfigurationError(
            "`optimizer.name` = 'muon': the model has no matrix for it; embeddings and the output layer are AdamW's.",
            remedy="Set optimizer.name adamw, or name in optimizer.adamw_patterns what AdamW is to keep.",
        )
    optimizers: dict[str, Optimizer] = {
        "muon": Muon(
            to_groups(matrices),
            lr=section.learning_rate,
            weight_decay=section.weight_decay,
            momentum=section.momentum,
            nesterov=section.nesterov,
            ns_steps=section.newton_schulz_steps,
            adjust_lr_fn=section.rate_adjustment,
        )
    }
    if others:
        groups = _at_own_rate(to_groups(others), section)
        optimizers["adamw"] = AdamW(
            groups, lr=section.learning_rate, betas=section.betas, eps=section.eps, fused=fused or None
        )
    return optimizers


def for_adamw(section: MuonSection, model: nn.Module) -> set[str]:
    """Return the names of the matrices that Muon leaves to AdamW."""
    names = [name for name, _ in model.named_parameters()]
    if section.adamw_patterns is not None:
        return set(matching(names, section.adamw_patterns, "optimizer.adamw_patterns"))
    embeddings = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
        for parameter in module.parameters(recurse=False)
    }
    matrices = [(name, parameter) for name, parameter in model.named_parameters() if parameter.dim() == 2]
    left = {name for name, parameter in matrices if id(parameter) in embeddings}
    return left | {name for name, _ in matrices[-1:]}


def _at_own_rate(groups: list[dict[str, Any]], section: MuonSection) -> list[dict[str, Any]]:
    if section.adamw_learning_rate is not None:
        for group in groups:
            group["lr"] *= section.adamw_learning_rate / section.learning_rate
    return groups
