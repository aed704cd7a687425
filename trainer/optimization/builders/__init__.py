"""One file for each family of optimizers, and the table by which the configuration finds them.

A builder takes its section and torch's parameter groups. Packages other than torch are imported inside it. Muon, which
divides the parameters itself, has a form of its own (muon.py); so has the user's own (assembly/own_optimizer.py).
"""

from __future__ import annotations

from collections.abc import Callable

from torch.optim import Optimizer

from trainwright.trainer.optimization.builders.adam import build_adafactor, build_adam, build_adam8bit, build_adamw
from trainwright.trainer.optimization.builders.adaptive import build_adadelta, build_adagrad, build_rmsprop
from trainwright.trainer.optimization.builders.layerwise import build_lamb, build_lars
from trainwright.trainer.optimization.builders.lbfgs import build_lbfgs
from trainwright.trainer.optimization.builders.lion import build_lion
from trainwright.trainer.optimization.builders.muon import build_muon
from trainwright.trainer.optimization.builders.schedule_free import build_schedule_free_adamw, build_schedule_free_sgd
from trainwright.trainer.optimization.builders.sgd import build_sgd

BUILDERS: dict[str, Callable[..., Optimizer]] = {
    "adamw": build_adamw,
    "sgd": build_sgd,
    "adam": build_adam,
    "adam8bit": build_adam8bit,
    "lamb": build_lamb,
    "lars": build_lars,
    "lion": build_lion,
    "adafactor": build_adafactor,
    "schedule_free_adamw": build_schedule_free_adamw,
    "schedule_free_sgd": build_schedule_free_sgd,
    "adadelta": build_adadelta,
    "rmsprop": build_rmsprop,
    "adagrad": build_adagrad,
    "lbfgs": build_lbfgs,
}
FUSED = frozenset({"adamw", "sgd", "adam"})
"""Those with kernels that can skip an update on the device; their builders take `fused`."""

__all__ = ["BUILDERS", "FUSED", "build_muon"]
