"""What user code is told about the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.trainer.user_code.paths import confine, confine_folder

TASK_DATA_SEED = 0
"""The seed of the data of every task. Data of `data.use` has one of its own, `data.split.seed`."""


@dataclass
class Context:
    """Handed to `build`, `step` and `train_step`. Of plain Python, so that user code imports nothing of ours."""

    seed: int
    """The run's seed, for weights and the order of training. It differs between the seeds that confirm a result, and
    their data must not: draw data from `data_seed`."""
    code_root: Path
    device: str
    """"cpu" or "cuda": where the model will be."""
    data_seed: int = TASK_DATA_SEED
    """The same for every run of a project: for data that is generated, sampled or split in `build`."""
    state: dict[str, Any] = field(default_factory=dict)
    """The user's own state between steps; checkpointed, so it may hold tensors, arrays and plain values, or objects
    with `state_dict` and `load_state_dict` that stand there after `build`."""
    epoch: int = 0
    step: int = 0
    """Optimizer steps done."""
    training: bool = True
    """False while validating."""

    def path(self, relative: str) -> Path:
        """Return a file or folder under the code root. Raises ConfigurationError where there is none inside it."""
        find = confine_folder if (self.code_root / relative).is_dir() else confine
        return find(relative, self.code_root, key="context.path")
