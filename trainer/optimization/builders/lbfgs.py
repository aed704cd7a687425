"""L-BFGS: Liu and Nocedal 1989 (Mathematical Programming 45), its line search after Nocedal and Wright 2006."""

from __future__ import annotations

from typing import Any

from torch.optim import LBFGS, Optimizer

from trainwright.trainer.optimization.optimizer_sections import LbfgsSection


def build_lbfgs(section: LbfgsSection, groups: list[dict[str, Any]]) -> Optimizer:
    """Return torch's L-BFGS; update.py gives it the loss again as often as it asks."""
    return LBFGS(
        groups,
        lr=section.learning_rate,
        max_iter=section.max_iterations,
        history_size=section.history,
        line_search_fn=section.line_search,
    )
