"""Context and arguments of user code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.trainer.base.paths import confine, confine_folder

TASK_DATA_SEED = 0
"""The seed of the data of every task. Data of `data.use` has another one, `data.split.seed`."""

SEEDED = "Seed what draws them: np.random.default_rng(0).permutation(n), random.Random(0), manual_seed(0) in torch."


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
    """The user's state between steps; checkpointed, so it may hold tensors, arrays and plain values, or objects
    with `state_dict` and `load_state_dict` that are there after `build`."""
    epoch: int = 0
    step: int = 0
    """Optimizer steps done."""
    training: bool = True
    """False while validating."""

    def path(self, relative: str) -> Path:
        """Return a file or folder under the code root. Raises ConfigurationError where there is none inside it."""
        find = confine_folder if (self.code_root / relative).is_dir() else confine
        return find(relative, self.code_root, key="context.path")


class Arguments(dict[str, Any]):
    """A dict that notes its keys as they are read; iterating over it reads all of them."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._unread = set(values)

    @property
    def unread(self) -> list[str]:
        """The given keys that have not been read."""
        return sorted(self._unread)

    def __getitem__(self, key: str) -> Any:
        self._unread.discard(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._unread.discard(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:  # noqa: D102 - as dict's, like all that follow
        self._unread.discard(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:  # noqa: D102
        self._unread.discard(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:  # noqa: D102
        self._unread.discard(key)
        return super().setdefault(key, default)

    def __iter__(self) -> Iterator[str]:  # also how `**config` and `dict(config)` take it
        self._unread.clear()
        return super().__iter__()

    def keys(self) -> Any:  # noqa: D102
        self._unread.clear()
        return super().keys()

    def values(self) -> Any:  # noqa: D102
        self._unread.clear()
        return super().values()

    def items(self) -> Any:  # noqa: D102
        self._unread.clear()
        return super().items()

    def copy(self) -> dict[str, Any]:  # noqa: D102
        self._unread.clear()
        return dict(super().items())

    def __or__(self, other: Any) -> Any:
        self._unread.clear()
        return dict(super().items()) | other

    def __repr__(self) -> str:
        return repr(dict(super().items()))
