"""Probes that show, in this process, that seeds and deterministic settings work (REPRO-1, REPRO-2)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import Dataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.failures import refusal
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.run.evidence import Draws, Reproducibility

NONDETERMINISTIC: dict[str, Callable[[], object]] = {
    "put_": lambda: torch.zeros(2).put_(torch.tensor([0]), torch.ones(1)),
    "max_unpooling2d_forward_out": lambda: functional.max_unpool2d(
        torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int64), [2, 2]
    ),
}
"""Operations without a deterministic implementation on any device, by torch's name."""


def run_probes(
    config: TrainingConfig, seeded: dict[str, bool | None], exemptions: Sequence[str] = ()
) -> Reproducibility:
    """Try seeds and settings. The generators are left as they were.

    Args:
        exemptions: operations that the workspace's owner allows although they are non-deterministic.
    """
    with seeding.preserved():
        draws = {
            "python": _repeats(config.seed, random.random),
            "numpy": _repeats(config.seed, lambda: float(np.random.random())),
            "torch": _repeats(config.seed, lambda: torch.rand(8).tolist()),
            "cuda": _repeats(config.seed, lambda: torch.rand(8, device="cuda").tolist())
            if torch.cuda.is_available()
            else None,
            "loader_workers": _loader_repeats(config),
        }
    settings = determinism.present_settings()
    refused, reason = _refuses_nondeterministic(exemptions, deterministic=config.reproducibility.deterministic)
    environment = launch_environment(config)
    wanted = determinism.settings_for(config.reproducibility, exemptions) | {
        "pythonhashseed": environment["PYTHONHASHSEED"],
        "cublas_workspace_config": environment["CUBLAS_WORKSPACE_CONFIG"],
    }
    settings_hold = settings == wanted
    passed = all(value is not False for value in draws.values()) and refused is not False and settings_hold
    return Reproducibility(
        seed=config.seed,
        seeded=seeded,
        probe=Draws(draws_repeat=draws, nondeterministic_operation_refused=refused, reason=reason),
        settings=settings,
        exemptions=list(exemptions),
        passed=passed,
    )


def _repeats(seed: int, draw: Callable[[], object]) -> bool:
    seeding.seed_everything(seed)
    first = [draw(), draw()]
    seeding.seed_everything(seed)
    return first == [draw(), draw()] and first[0] != first[1]


class _Draws(Dataset[torch.Tensor]):
    """Samples that are nothing but random draws."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([random.random(), float(np.random.random()), float(torch.rand(()))])


def _loader_repeats(config: TrainingConfig) -> bool:
    """Return whether samples drawn in a loader worker equal those drawn in this process."""

    def drawn(workers: int) -> torch.Tensor:
        loader = BatchLoader(_Draws(), 2, config.seed, shuffle=True, num_workers=workers)
        return torch.cat(list(loader.batches(0)))

    return torch.equal(drawn(0), drawn(1))


def _refuses_nondeterministic(exemptions: Sequence[str], *, deterministic: bool) -> tuple[bool | None, str | None]:
    """Try a non-deterministic operation that is not exempted; return (whether it was refused, which or why not)."""
    if not deterministic:
        return None, "not asked: deterministic algorithms are switched off by the configuration"
    tried = next((name for name in NONDETERMINISTIC if name not in exemptions), None)
    if tried is None:
        return None, "not asked: the owner exempted every operation that could be tried"
    try:
        NONDETERMINISTIC[tried]()
    except (RuntimeError, UserWarning) as error:
        found = refusal(error)
        return found is not None, found.details["operation"] if found else str(error)[:200]
    return False, f"{tried} was not refused"
