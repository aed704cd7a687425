"""Seam to a trainer of another library: what it hands over, what it tells while it trains, and what it must keep.

The contract, for whoever writes another one (tests/contracts has its suite):

1. *Build nothing twice.* A `Framework` is made once per attempt around the object that the user's function returned,
   before any training. It reads the plan (`epochs`, `total_steps`, ...) from that object; nobody else decides it.
2. *Samples.* `samples()` gives train, validation and, where the user has one, test. The worker takes the test away
   (`hold_back`) before anything is trained; what is held back is never seen by the library again.
3. *Order and draws* come from `loader`, a `PositionedLoader`: a position is (epoch, batch), the order of an epoch is
   a pure function of (seed, epoch), and what a data set draws for a sample is keyed to (seed, epoch, sample). The
   library reads its training batches from it and from nothing else.
4. *State.* `components()` are all that the next step depends on beside the model's weights, the global generators and
   the position. Their `state_dict` may be asked for at any call of `Moments.step` or `Moments.epoch`, and two runs
   that did the same must give the same (no clock values). `load_state_dict` comes before `train`; what does not exist
   yet then (a schedule, a scaler) is kept in a `Deferred` and put in place inside `train`.
5. *Training.* `train(moments)` goes from `moments.progress` to the end. It calls `moments.step` after each update with
   everything of that step done (schedule moved, logs written), and `moments.epoch` after each epoch; it ends when
   `moments.must_stop`. The global generators are those that `moments.restore_generators()` puts back; it is called
   once, at the last point before the first step at which anything draws.
6. *Divergence.* A loss or gradient norm that is not finite ends the run before the update: `moments.diverged`.
7. *Honesty.* What the library does and the run cannot give exactly is refused with a `ConfigurationError`, or named in
   `lost` (it stands in the run's events and evidence), with what is lost by it.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import Subset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.container import IN_A_WALL
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.assemble import from_user, withhold_test
from trainwright.trainer.frameworks import DOCUMENT, framework_of
from trainwright.trainer.objectives.objective import Work
from trainwright.trainer.user_code.constructions import remembered
from trainwright.trainer.user_code.context import TASK_DATA_SEED
from trainwright.trainer.user_code.entries import call_entry, resolve_entry
from trainwright.trainer.user_code.guard import user_code

if TYPE_CHECKING:
    from trainwright.trainer.config import TrainingConfig
    from trainwright.trainer.engine.components import Stateful
    from trainwright.trainer.frameworks.loop import Moments
    from trainwright.trainer.frameworks.positioned import PositionedLoader


@dataclass
class Plan:
    """What the library's trainer has decided about the length of training."""

    epochs: int
    total_steps: int
    """Optimizer steps to the end, epochs cut short included."""
    batch_size: int
    """Samples in a micro-batch."""
    accumulation_steps: int = 1
    save_every_n_steps: int | None = None
    """How often the trainer itself would have saved."""


class Framework(ABC):
    """A library's trainer, as the worker runs it.

    Attributes:
        model: the trained module.
        optimizers: by name; made when the `Framework` is.
        loader: where the library takes its training batches from.
        changed: settings of the user's trainer that are other in a run, each in a sentence.
        lost: what this trainer has and the run cannot give, each in a sentence.
    """

    name: ClassVar[str]
    model: nn.Module
    processing: Any = None
    """Tokenizer or processor that the user's trainer has, with save_pretrained: exported beside the model."""
    optimizers: Mapping[str, Optimizer]
    loader: PositionedLoader
    plan: Plan

    def __init__(self, handed: Any) -> None:
        self.handed = handed
        self.changed: list[str] = []
        self.lost: list[str] = []

    @classmethod
    def take(cls, handed: Any) -> tuple[Framework, Any]:
        """Return the framework around what the user's function returned, and the test data set if there was one."""
        trainer, *rest = handed if isinstance(handed, tuple) else (handed,)
        return cls(trainer), rest[0] if rest else None

    @abstractmethod
    def samples(self) -> dict[str, Any]:
        """Return the data sets by split: train, and validation and test where the user has them."""

    @abstractmethod
    def hold_back(self, validation: Any) -> None:
        """Let the library validate on these samples, and forget the test."""

    @abstractmethod
    def prepare(self, seed: int) -> None:
        """Make loader, optimizers and plan. Comes once, after `hold_back`, under generators seeded with `seed`.

        Raises:
            ConfigurationError: the trainer has something that no run can give exactly.
        """

    @abstractmethod
    def components(self) -> dict[str, Stateful]:
        """Return all state beside weights, generators and position, by name; `optimizers` among them."""

    @abstractmethod
    def train(self, moments: Moments) -> None:
        """Train from the position of `moments` until it must stop or the plan is done.

        Raises:
            DivergenceError: a loss or gradient is not finite. And the user code's errors.
        """

    @abstractmethod
    def evaluate(self, samples: Any) -> dict[str, float]:
        """Return `loss` and the library's metrics over a data set, without a trace in training."""

    @abstractmethod
    def measure(self, batch: Any) -> dict[str, Any]:
        """Return `loss`, and `output` and `target` where there are such, of one batch by the model as it is."""

    def read(self, samples: Any) -> Any:
        """Return a data set as the library reads it: some take columns out of it before they make a batch."""
        return samples

    def unwrap(self) -> None:  # noqa: B027 - most wrap nothing
        """Leave the model as it is outside of the library, without wrappers around its forward: nothing trains now."""

    @property
    def drops_samples(self) -> bool:
        """Whether the user's code may leave out samples that are None where it makes a batch."""
        return True

    @property
    def collate(self) -> Callable[[list[Any]], Any] | None:
        """What makes a batch of samples."""
        return self.loader.collate

    def effective(self, config: TrainingConfig) -> TrainingConfig:
        """Return the configuration with the plan of the trainer where it is the trainer's to decide."""
        plan, training, every = self.plan, config.training, config.checkpoints.checkpoint_every_n_steps
        bound = min(training.max_steps or plan.total_steps, plan.total_steps)
        decided = {"epochs": plan.epochs, "max_steps": bound, "accumulation_steps": plan.accumulation_steps}
        theirs = plan.save_every_n_steps if config.checkpoints.save_last else None
        saved = {"checkpoint_every_n_steps": every or theirs}
        return config.model_copy(
            update={
                "training": training.model_copy(update=decided),
                "loader": config.loader.model_copy(update={"batch_size": plan.batch_size}),
                "checkpoints": config.checkpoints.model_copy(update=saved),
            }
        )


def refusal(subject: str, document: str, why: str, remedy: str) -> ConfigurationError:
    """Return the error for what no run can do with a library's trainer."""
    return ConfigurationError(f"{subject}: {why}.", remedy=f"{remedy[0].upper()}{remedy[1:]}.", document=document)


def framework_in(work: Work) -> Framework | None:
    """Return the library's trainer of a run; None where the engine trains itself."""
    return work.framework if isinstance(work.framework, Framework) else None


@dataclass
class Deferred:
    """State of an object that comes into being inside `train`: kept when it is loaded, put in place by `apply`."""

    live: Callable[[], Stateful | None]
    pending: dict[str, Any] | None = field(default=None, init=False)

    def state_dict(self) -> dict[str, Any]:
        """Return the live object's state; what is pending where there is none yet."""
        found = self.live()
        return (self.pending or {}) if found is None else found.state_dict()

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Keep it."""
        self.pending = state

    def apply(self) -> None:
        """Put a kept state into the object, which is there now."""
        state, self.pending = self.pending, None
        found = self.live()
        if state and found is not None:
            found.load_state_dict(state)


class ByName:
    """Optimizers by name, as one component."""

    def __init__(self, optimizers: Mapping[str, Any]) -> None:
        self.optimizers = optimizers

    def state_dict(self) -> dict[str, Any]:
        """Return each optimizer's state."""
        return {name: each.state_dict() for name, each in self.optimizers.items()}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Load each optimizer's state."""
        for name, each in self.optimizers.items():
            each.load_state_dict(state[name])


# Handing over: the user's function is called, its trainer recognised, and the test rows are taken from it.

MIN_TO_HALVE = 2


def hand_over(config: TrainingConfig, code_root: Path, *, keeps_test: bool) -> Work:
    """Return the work of `config.trainer`: the library's trainer with its model, data and optimizer.

    Args:
        keeps_test: whether the test rows stay; else they are gone when training begins.

    Raises:
        ConfigurationError, UserCodeError, DataError: as the part that is wrong deserves.
    """
    section = config.trainer
    assert section is not None, "called where there is one"  # noqa: S101
    framework, samples = handed_over(config, code_root)
    with user_code(f"Reading samples of trainer `{section.use}`", code_root):
        collates = framework.drops_samples
        splits = from_user(samples, None, source=section.use, seed=TASK_DATA_SEED, collates=collates)
    if not keeps_test:
        withhold_test(splits, is_built_in=False)
    with user_code(f"trainer `{section.use}`", code_root):
        framework.hold_back(samples.get("validation"))
        seeding.seed_everything(config.seed)
        framework.prepare(config.seed)
    return Work(
        model=framework.model,
        splits=splits,
        loss=None,
        metrics=[],
        batch_size=framework.plan.batch_size,
        collate=framework.collate,
        train_step=_made_by_the_library,
        validation_step=lambda _model, batch, _context: framework.measure(batch),
        optimizers=framework.optimizers,
        framework=framework,
    )


def handed_over(config: TrainingConfig, code_root: Path) -> tuple[Framework, dict[str, Any]]:
    """Call the user's function; return the framework around its trainer, and the samples of each split.

    The function returns the trainer, or the trainer and a test data set. Where there is none, half of the validation
    rows become the test, chosen at random and the same each time.

    Raises:
        ConfigurationError: no library is known that the trainer is of, or it has no data.
        UserCodeError: the function raised.
    """
    section = config.trainer
    assert section is not None, "called where there is one"  # noqa: S101
    what = f"trainer `{section.use}`"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL's trainers tell the hub what they train
    function = resolve_entry(section.use, code_root, key="trainer.use")
    with output_of_its_own(), remembered() as keep:
        given = call_entry(function, copy.deepcopy(section.args), what, code_root)
        with user_code(what, code_root):
            framework, test = framework_of(given, what).take(given)
            samples = framework.samples()
            keep(framework.model)
    if test is not None:
        samples["test"] = test
    for name, argument in (("train", "train_dataset"), ("validation", "eval_dataset")):
        if name not in samples:
            raise ConfigurationError(
                f"{what} returned a trainer without {argument}, so no {name} value can ever be measured.",
                remedy=f"Give it {argument}: rows that the other splits do not have.",
                document=DOCUMENT,
            )
    return framework, samples if "test" in samples else _with_test(samples, framework)


@contextmanager
def output_of_its_own() -> Iterator[None]:
    """Behind a wall, let a Trainer of transformers have its `output_dir`, which it makes at once, where it may."""
    module = sys.modules.get("transformers.training_args")
    if module is None or IN_A_WALL not in os.environ:
        yield
        return
    kind, prepare = module.TrainingArguments, module.TrainingArguments.__post_init__

    def redirected(arguments: Any) -> None:
        arguments.output_dir = str(Path(tempfile.gettempdir()) / Path(arguments.output_dir or "out").name)
        prepare(arguments)

    kind.__post_init__ = redirected
    try:
        yield
    finally:
        kind.__post_init__ = prepare


def _with_test(samples: dict[str, Any], framework: Framework) -> dict[str, Any]:
    held_out = samples["validation"]
    size = len(held_out) if hasattr(held_out, "__len__") else 0
    if size < MIN_TO_HALVE:
        return samples
    shuffled = np.random.default_rng([TASK_DATA_SEED, size]).permutation(size)
    validation, test = np.sort(shuffled[: (size + 1) // 2]), np.sort(shuffled[(size + 1) // 2 :])
    framework.changed.append(
        f"No test data were handed over: {len(test)} of the {size} evaluation rows, chosen at random, are held back as "
        "the test; the trainer evaluates on the others."
    )
    return {**samples, "validation": _chosen(held_out, validation), "test": _chosen(held_out, test)}


def _chosen(samples: Any, indices: np.ndarray[Any, Any]) -> Any:
    is_theirs = type(samples).__module__.partition(".")[0] == "datasets"  # a datasets.Dataset stays one
    return samples.select(indices.tolist()) if is_theirs else Subset(samples, indices.tolist())


def _made_by_the_library(*_: Any) -> Any:
    raise AssertionError("the library's trainer makes the steps")
