"""Muon, momentum orthogonalised by Newton-Schulz steps: Jordan et al. 2024 (kellerjordan.github.io/posts/muon).

The scaling of rates by shape that lets AdamW's rate serve both parts: Liu et al. 2025, arXiv:2502.16982.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import LearningRate, Patterns, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Betas, Groups, Optimizer, OptimizerSection
from trainwright.trainer.optimization.parameters import Setting, matching, to_groups

if TYPE_CHECKING:
    from torch import nn


class Muon(OptimizerSection):
    """Orthogonalised momentum for the hidden matrices, AdamW for everything else."""

    made_by = "torch.optim.Muon"
    since = releases.MUON
    fused = True
    divides = True

    name: Literal["muon"] = "muon"
    momentum: Probability = 0.95
    nesterov: bool = True
    newton_schulz_steps: Annotated[int, Field(ge=1, lt=100)] = 5
    rate_adjustment: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """How a matrix's shape scales its rate; match_rms_adamw lets both parts share one learning rate."""
    adamw_learning_rate: LearningRate | None = None
    """Rate of the AdamW part; learning_rate where it is left out."""
    adamw_patterns: Patterns | None = None
    """Matrices for AdamW; left out: embeddings and the output layer's."""
    betas: Betas = (0.9, 0.999)
    eps: PositiveFloat = 1e-8

    def build_all(
        self,
        groups: Groups,  # noqa: ARG002 - divided anew
        settings: Sequence[Setting],
        model: nn.Module,
        **kernels: Any,
    ) -> dict[str, Optimizer]:
        """Return torch's Muon for the hidden matrices, and AdamW for embeddings, the output layer and the rest.

        Raises:
            ConfigurationError: the model has no hidden matrix.
        """
        from torch import optim

        names = self._for_adamw(model)
        matrices = [setting for setting in settings if setting.parameter.dim() == 2 and setting.name not in names]
        others = [setting for setting in settings if setting.parameter.dim() != 2 or setting.name in names]
        if not matrices:
            raise ConfigurationError(
                "`optimizer.name` = 'muon': the model has no matrix for it; embeddings and the output layer are "
                "AdamW's.",
                remedy="Set optimizer.name adamw, or name AdamW's parameters in optimizer.adamw_patterns.",
            )
        optimizers: dict[str, Optimizer] = {"muon": self.build(to_groups(matrices))}
        if others:
            rest = self._at_own_rate(to_groups(others))
            optimizers["adamw"] = optim.AdamW(rest, lr=self.learning_rate, betas=self.betas, eps=self.eps, **kernels)
        return optimizers

    def options(self) -> dict[str, Any]:
        """Return torch's names, of the matrices' part."""
        return {
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
            "momentum": self.momentum,
            "nesterov": self.nesterov,
            "ns_steps": self.newton_schulz_steps,
            "adjust_lr_fn": self.rate_adjustment,
        }

    def _for_adamw(self, model: nn.Module) -> set[str]:
        """Return the names of the matrices that Muon leaves to AdamW."""
        from torch import nn

        names = [name for name, _ in model.named_parameters()]
        if self.adamw_patterns is not None:
            return set(matching(names, self.adamw_patterns, "optimizer.adamw_patterns"))
        embeddings = {
            id(parameter)
            for module in model.modules()
            if isinstance(module, nn.Embedding | nn.EmbeddingBag)
            for parameter in module.parameters(recurse=False)
        }
        matrices = [(name, parameter) for name, parameter in model.named_parameters() if parameter.dim() == 2]
        left = {name for name, parameter in matrices if id(parameter) in embeddings}
        return left | {name for name, _ in matrices[-1:]}

    def _at_own_rate(self, groups: Groups) -> Groups:
        if self.adamw_learning_rate is not None:
            for group in groups:
                group["lr"] *= self.adamw_learning_rate / self.learning_rate
        return groups
