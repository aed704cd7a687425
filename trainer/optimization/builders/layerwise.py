"""Trust ratios by tensor, for large batches.

LAMB: You et al. 2020, arXiv:1904.00962, version 3 (without bias correction, weight norms cut at 10). LARS: You, Gitman
and Ginsburg 2017, arXiv:1708.03888.
"""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from trainwright.trainer.optimization.optimizer_sections import LambSection, LarsSection


def build_lamb(section: LambSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return pytorch-optimizer's LAMB."""
    from pytorch_optimizer import Lamb

    return Lamb(
        groups,
        lr=section.learning_rate,
        betas=section.betas,
        eps=section.eps,
        weight_decay=section.weight_decay,
        weight_decouple=False,  # the paper's: decay is part of the update whose norm the trust ratio takes
        adam_debias=True,  # else the package divides the rate by 1 - beta1**t: ten times too far at the first step
    )


def build_lars(section: LarsSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return pytorch-optimizer's LARS; one-dimensional parameters follow SGD without decay."""
    from pytorch_optimizer import LARS

    return LARS(
        groups,
        lr=section.learning_rate,
        momentum=section.momentum,
        nesterov=section.nesterov,
        trust_coefficient=section.trust_coefficient,
        weight_decay=section.weight_decay,
    )
