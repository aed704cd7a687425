"""A LightningModule as a `Framework`: its data module and lightning.Trainer, what they hand over, and their state.

Written against Lightning 2.6: the methods that a run takes hold of are those of hooks.TAKEN, each on the instance. The
user's function returns (Trainer, module, data module), any of the first and last left out, before fit() was called.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.engine.components import Stateful
from trainwright.trainer.frameworks.attributes import OF_A_MODULE, Attributes
from trainwright.trainer.frameworks.framework import ByName, Framework, Plan
from trainwright.trainer.frameworks.generators import evaluating
from trainwright.trainer.frameworks.lightning import settings
from trainwright.trainer.frameworks.lightning.hooks import TAKEN, Hooks, named, note_loss, parts_of, with_loss, wrapped
from trainwright.trainer.frameworks.lightning.settings import forget, like, limited, one_loader
from trainwright.trainer.frameworks.lightning.state import Declared, Each, Loops, Results, objects_of
from trainwright.trainer.frameworks.loop import Moments
from trainwright.trainer.user_code.context import TASK_DATA_SEED

EPOCHS_WITHOUT_A_TRAINER = 10
HANDED = ("LightningModule", "LightningDataModule", "Trainer")
"""Classes that the user's function returns instances of; anything else is the test data set."""


class LightningTrainer(Framework):
    """A LightningModule with what trains it.

    Raises:
        ConfigurationError: it was trained already, or has something that no run can give.
    """

    name: ClassVar[str] = "lightning"

    def __init__(self, trainer: Any, module: Any, data: Any, package: str) -> None:
        super().__init__(trainer)
        self.model: Any = module
        self.data, self.package = data, package
        self.trainer = trainer or self._own_trainer()
        settings.require_possible(self.trainer, module)
        missing = [
            f"{owner}.{name}"
            for owner, part in parts_of(self.trainer).items()
            for name in TAKEN[owner]
            if not callable(getattr(part, name, None))
        ]
        if missing:
            raise settings.refused(f"this release of Lightning has no {missing[0]}", "install lightning 2.6.6")
        self.logged: dict[str, float] = {}
        """Values that the module logged since the last step."""

    @classmethod
    def take(cls, handed: Any) -> tuple[Framework, Any]:
        """Return the framework around what the user's function returned, and the test data set if there was one."""
        parts = handed if isinstance(handed, tuple) else (handed,)
        found: dict[str, Any] = {}
        for part in parts:
            kinds = {ancestor.__name__ for ancestor in type(part).__mro__ if package_of(ancestor)}
            found[next((each for each in HANDED if each in kinds), "test")] = part
        module = found.get("LightningModule")
        if module is None:
            raise settings.refused("no LightningModule was returned with it", "return (trainer, module, data module)")
        package = next(filter(None, map(package_of, type(module).__mro__)))
        return cls(found.get("Trainer"), module, found.get("LightningDataModule"), package), found.get("test")

    def _own_trainer(self) -> Any:
        self.changed.append(
            f"No lightning.Trainer was handed over: {EPOCHS_WITHOUT_A_TRAINER} epochs; return (Trainer, module, data "
            "module) for another number."
        )
        made = importlib.import_module(self.package).Trainer
        return made(max_epochs=EPOCHS_WITHOUT_A_TRAINER, accelerator="auto", devices=1, logger=False)

    # data

    def samples(self) -> dict[str, Any]:
        """Return the data sets of the loaders, which are asked for as Lightning asks for them."""
        trainer = self.trainer
        settings.take_over(self)
        states = importlib.import_module(f"{self.package}.trainer.states")
        trainer.state.fn, trainer.state.status = states.TrainerFn.FITTING, states.TrainerStatus.RUNNING
        trainer.training = True
        trainer.strategy._lightning_module = self.model
        trainer._data_connector.attach_data(self.model, datamodule=self.data)
        trainer._data_connector.prepare_data()
        self._set_up("fit")
        self.train_loader = one_loader(self._loader("train_dataloader"), "train_dataloader")
        self.validation_loader = one_loader(self._loader("val_dataloader"), "val_dataloader")
        found = {"train": self.train_loader.dataset, "validation": self.validation_loader.dataset}
        if self._is_given("test_dataloader"):
            self._set_up("test")
            found["test"] = one_loader(self._loader("test_dataloader"), "test_dataloader").dataset
        self.held_back = found.get("test")
        return found

    @property
    def _source(self) -> Any:
        """What has the loaders: the data module, or the module itself."""
        return self.model if self.data is None else self.data

    def _set_up(self, stage: str) -> None:
        """Call setup, under the same draws for each stage, so that a split that is drawn there is the same."""
        with seeding.preserved():
            seeding.seed_sample(TASK_DATA_SEED, 0)
            if self.data is not None:
                self.data.setup(stage)
            if stage == "fit" or self.data is None:
                self.model.setup(stage)

    def _is_given(self, name: str) -> bool:
        overridden = importlib.import_module(f"{self.package}.utilities.model_helpers").is_overridden
        return bool(overridden(name, self._source))

    def _loader(self, name: str) -> Any:
        if not self._is_given(name):
            raise settings.refused(
                f"{type(self._source).__name__} has no {name}", "give it one: rows that the other splits do not have"
            )
        with seeding.preserved():
            return getattr(self._source, name)()

    def hold_back(self, validation: Any) -> None:
        """Let the trainer validate on these samples alone, and forget its test data."""
        if self.validation_loader.drop_last or self.validation_loader.batch_sampler is None:
            self.changed.append("drop_last of val_dataloader is off: every measured value is of the whole split.")
        self.validation_loader = like(self.validation_loader, validation)
        if self.held_back is not None:
            forget((self.data, self.model), self.held_back)
            self._source.test_dataloader = list
            self.held_back = None

    # before training

    def prepare(self, seed: int) -> None:
        """Go through fit() up to its loops, with our loaders: model on its device, optimizers and schedules made."""
        trainer = self.trainer
        self.loader = limited(self.train_loader, seed, trainer.limit_train_batches)
        trainer.limit_train_batches = 1.0
        self._source.train_dataloader = lambda: self.loader
        self._source.val_dataloader = lambda: self.validation_loader
        self._begin_fit()
        settings.take_over(self)  # callbacks of the module's own have come
        settings.require_steps(trainer, self.model)
        self.optimizers = {
            f"{type(each).__name__.lower()}{number or ''}": each for number, each in enumerate(trainer.optimizers)
        }
        self.plan = self._plan()

    def _begin_fit(self) -> None:
        trainer = self.trainer
        with ExitStack() as stack:
            for part, name in (
                (trainer._data_connector, "prepare_data"),
                (trainer._signal_connector, "register_signal_handlers"),
                (self.model, "setup"),
                (self.data, "setup"),
            ):
                if part is not None:
                    stack.enter_context(wrapped(part, name, _nothing))
            stack.enter_context(wrapped(trainer, "_run_stage", _prepared))
            try:
                trainer._fit_impl(self.model, datamodule=self.data)
            except _PreparedError:
                return

    def _plan(self) -> Plan:
        trainer, batches = self.trainer, len(self.loader)
        accumulated = trainer.accumulate_grad_batches if self.model.automatic_optimization else 1
        per_epoch = -(-batches // accumulated)
        epochs, most = trainer.fit_loop.max_epochs, trainer.max_steps
        if epochs == -1 and most == -1:
            raise settings.refused("max_epochs -1 never ends", "set max_epochs or max_steps of the Trainer")
        if epochs == -1:
            epochs = -(-most // per_epoch)
        total = epochs * per_epoch if most == -1 else min(epochs * per_epoch, most)
        return Plan(
            epochs=int(epochs),
            total_steps=int(total),
            batch_size=self.loader.batch_size,
            accumulation_steps=int(accumulated),
            save_every_n_steps=self.save_every_n_steps,
        )

    save_every_n_steps: int | None = None

    # state

    def components(self) -> dict[str, Stateful]:
        """Return optimizers, schedules, counters and everything that trainer, callbacks and modules keep."""
        trainer = self.trainer
        self.loops, self.results = Loops(trainer), Results(trainer, self.package, self.logged)
        self.declared = Declared(trainer)
        self.attributes = Attributes(lambda: objects_of(trainer), OF_A_MODULE)
        self.lost += self.attributes.left_out()
        return {
            "optimizers": ByName(self.optimizers),
            "trainer_schedules": Each(lambda: [each.scheduler for each in trainer.lr_scheduler_configs]),
            "trainer_loops": self.loops,
            "trainer_results": self.results,
            "trainer_declared": self.declared,
            "trainer_attributes": self.attributes,
        }

    def put_back(self) -> None:
        """Put back what exists only once training begins."""
        for kept in (self.declared, self.attributes, self.results):
            kept.apply()

    def accumulates(self) -> bool:
        """Return whether the newest batch made no update yet."""
        return bool(self.model.automatic_optimization and self.trainer.fit_loop.epoch_loop._should_accumulate())

    def micro_batches(self, done: int) -> int:
        """Return how many batches of the epoch came after the first `done`."""
        return int(self.trainer.fit_loop.epoch_loop.batch_progress.current.ready) - done

    # training

    def train(self, moments: Moments) -> None:
        """Run the trainer's own loops, with our hooks in them."""
        self.loader.waited = moments.waited
        self.attributes.begin()
        self.loops.apply()
        self.trainer.fit_loop._combined_loader = None
        with Hooks(self, moments).installed():
            self.trainer._run_stage()
        self.trainer.fit_loop.epoch_loop.val_loop._combined_loader = None

    def evaluate(self, samples: Any) -> dict[str, float]:
        """Return what validation_step and its hooks log over a data set, its names without `val_`.

        Raises:
            ConfigurationError: they measure no loss.
        """
        loader = self.validation_loader if samples is None else like(self.validation_loader, samples)
        loop, returned = self.trainer.validate_loop, list[tuple[float, int]]()
        loop._data_source.instance, loop.verbose, loop.inference_mode = loader, False, False

        def step(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            note_loss(returned, found, args or tuple(kwargs.values()))
            return found

        with self._aside(), wrapped(self.trainer.strategy, "validation_step", step):
            found = with_loss(loop.run(), returned)
        if "loss" not in found:
            raise ConfigurationError(
                f"{type(self.model).__name__}.validation_step measures no loss; it logged "
                f"{', '.join(found) or 'nothing'}.",
                remedy='Let it return the loss, or log it: self.log("val_loss", loss).',
                document=settings.DOCUMENT,
            )
        return found

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Validate inside the context, and leave trainer, callbacks, modules and generators as they were."""
        trainer = self.trainer
        states = importlib.import_module(f"{self.package}.trainer.states")
        state, callbacks = (trainer.state.fn, trainer.state.stage), trainer.callbacks
        modes = {module: module.training for module in self.model.modules()}
        with self._unchanged(), evaluating(self.validation_loader.dataset, self.validation_loader.collate_fn):
            trainer.callbacks = []
            trainer.state.fn, trainer.state.stage = states.TrainerFn.VALIDATING, states.RunningStage.VALIDATING
            try:
                yield
            finally:
                trainer.callbacks = callbacks
                trainer.state.fn, trainer.state.stage = state
                for module, training in modes.items():
                    module.training = training

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        kept = Attributes(lambda: objects_of(self.trainer), OF_A_MODULE | {"callbacks", "training"})
        before = copy.deepcopy(kept.state_dict())  # all of them: what training began with was not noted here
        try:
            yield
        finally:
            kept.load_state_dict(before)
            kept.apply()

    def measure(self, batch: Any) -> dict[str, Any]:
        """Return the loss of a batch, and output and target where a batch is (input, target)."""
        logged: dict[str, Any] = {}

        def log(_: Callable[..., Any], name: str, value: Any, *__: Any, **___: Any) -> None:
            logged[name] = value

        def log_dict(_: Callable[..., Any], values: Mapping[str, Any], *__: Any, **___: Any) -> None:
            logged.update(values)

        with wrapped(self.model, "log", log), wrapped(self.model, "log_dict", log_dict):
            found = self.model.validation_step(batch, 0)
        loss = found.get("loss") if isinstance(found, Mapping) else found
        if loss is None:
            losses = [value for name, value in logged.items() if named({name: 0.0}).keys() == {"loss"}]
            loss = losses[0] if losses else torch.tensor(float("nan"))
        measured: dict[str, Any] = {"loss": loss}
        if isinstance(batch, Sequence) and len(batch) == 2 and all(isinstance(each, Tensor) for each in batch):
            measured |= {"output": self.model(batch[0]), "target": batch[1]}
        return measured


class _PreparedError(Exception):
    """Everything before the loops of fit() is done."""


def _prepared(_: Callable[..., Any]) -> None:
    raise _PreparedError


def _nothing(_: Callable[..., Any], *__: Any, **___: Any) -> None:
    """Leave out what was done already, or must not be."""


def package_of(kind: type) -> str | None:
    """Return the package of Lightning that a class is of, or None."""
    first = kind.__module__.partition(".")[0]
    return {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}.get(first)
