"""`transformers.Trainer` and its subclasses as a `Framework`: what they hand over, and what they keep between steps.

The methods that a run takes hold of are those in hooks.py, each on the instance, so that copies of them in subclasses
(TRL's GRPO) and the user's own overrides keep running inside ours. Before transformers 5.3 an epoch is no method, and a
run could not be resumed inside one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.data import ConcatDataset, IterableDataset

from trainwright.trainer.base import releases, seeding
from trainwright.trainer.engine.components import Stateful
from trainwright.trainer.frameworks import DOCUMENT
from trainwright.trainer.frameworks.attributes import OF_A_MODULE, Attributes, Modules, named
from trainwright.trainer.frameworks.framework import ByName, Deferred, Framework, Plan, refusal
from trainwright.trainer.frameworks.generators import evaluating
from trainwright.trainer.frameworks.hugging_face.hooks import Hooks
from trainwright.trainer.frameworks.loop import Moments
from trainwright.trainer.frameworks.positioned import PositionedLoader, has_rows_of

ELSEWHERE = frozenset({
    "args", "model", "model_wrapped", "train_dataset", "eval_dataset", "test_dataset", "optimizer", "lr_scheduler",
    "state", "control", "callback_handler", "accelerator", "model_init", "is_in_train",
    "_created_lr_scheduler", "_signature_columns", "_loggers_initialized", "_mixed_mesh_grads",
    "_memory_tracker", "_eval_dataloaders", "hp_name",
})  # fmt: skip
"""Attributes of a Trainer that are kept by other components, or made anew by `train`."""
OF_STATE = frozenset({
    "max_steps", "num_train_epochs", "train_batch_size", "logging_steps", "eval_steps", "save_steps",
    "is_local_process_zero", "is_world_process_zero", "is_hyper_param_search", "trial_name", "trial_params",
    "stateful_callbacks",
})  # fmt: skip
"""Attributes of a TrainerState that follow from the plan."""
REFUSED = (
    ("auto_find_batch_size", "makes the batch smaller when memory runs out, without saying so", "set it False, and a "
     "batch that fits"),
    ("deepspeed", "divides the model over processes", "leave it out: a handed-over trainer runs in one process"),
    ("fsdp", "divides the model over processes", "leave it out: a handed-over trainer runs in one process"),
    ("use_vllm", "generates in an engine of its own, whose draws no run can key or put back", "set it False"),
    ("use_liger_kernel", "replaces the model's functions when training begins", "set it False"),
)  # fmt: skip
"""Arguments that no run can follow, why, and what to do."""
PARTS = "Hand over model, data and loss as a `task` (configs/your_code.md)"
_refused = partial(refusal, "The Trainer cannot run as it is", DOCUMENT)


class TransformersTrainer(Framework):
    """A Trainer of transformers.

    Raises:
        ConfigurationError: it was trained already, or has something that no run can give.
    """

    name: ClassVar[str] = "transformers"

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer)
        self.trainer = trainer
        self._require_possible()
        self.model, self.processing = trainer.model, getattr(trainer, "processing_class", None)
        self.hooks: Hooks | None = None

    def samples(self) -> dict[str, Any]:
        """Return the data sets: of several for evaluation, one after the other."""
        trainer = self.trainer
        evaluated = trainer.eval_dataset
        if isinstance(evaluated, Mapping) and type(evaluated).__module__.partition(".")[0] != "datasets":
            self._sets = (*evaluated,)
            evaluated = next(iter(evaluated.values())) if len(evaluated) == 1 else ConcatDataset(evaluated.values())
        test = getattr(trainer, "test_dataset", None)
        found = {"train": trainer.train_dataset, "validation": evaluated, "test": test}
        return {name: samples for name, samples in found.items() if samples is not None}

    _sets: tuple[str, ...] = ()

    def hold_back(self, validation: Any) -> None:
        """Let the trainer evaluate on these samples alone, and forget its test data."""
        self.trainer.eval_dataset = validation
        if getattr(self.trainer, "test_dataset", None) is not None:
            self.trainer.test_dataset = None

    def prepare(self, seed: int) -> None:
        """Settle the arguments, make the model where the trainer does, then loader, optimizer and plan."""
        trainer, args = self.trainer, self.trainer.args
        self._settle(seed)
        if trainer.model_init is not None:
            seeding.seed_everything(seed)
            trainer.model = trainer.model_wrapped = self.model = trainer.call_model_init()
            trainer.model.to(args.device)
            trainer.callback_handler.model, trainer.model_init = trainer.model, None
        with _unprepared(trainer.accelerator):
            self.loader = PositionedLoader(trainer.get_train_dataloader(), seed)
            evaluated = trainer.get_eval_dataloader(trainer.eval_dataset).dataset
        getattr(trainer, "_eval_dataloaders", {}).clear()  # one with lasting workers is kept there as it is
        for name, read in (("train", self.loader.dataset), ("eval", evaluated)):
            if not has_rows_of(read, getattr(trainer, f"{name}_dataset")):
                raise _refused(
                    f"its get_{name}_dataloader reads other rows than {name}_dataset has, on which fingerprint, splits "
                    "and leaks would be measured",
                    f"give {name}_dataset the rows that it reads",
                )
        trainer.get_train_dataloader = lambda: self.loader
        trainer.create_optimizer()
        self.optimizers = {type(trainer.optimizer).__name__.lower(): trainer.optimizer}
        self._require_plain_steps()
        self.plan = self._plan()
        if args.dataloader_drop_last:
            args.dataloader_drop_last = False  # the train loader has it already
            self.changed.append("dataloader_drop_last is off in evaluation: values are of the whole split.")

    @property
    def drops_samples(self) -> bool:
        """Whether the collator is none of the library's."""
        collator = self.trainer.data_collator
        module = getattr(collator, "__module__", None) or type(collator).__module__
        return module.partition(".")[0] not in {"transformers", "trl"}

    @property
    def collate(self) -> Callable[[list[Any]], Any] | None:
        """What makes a batch, without the columns (a text) that the trainer takes out of a data set before it."""
        return self.trainer._get_collator_with_removed_columns(self.loader.collate)  # type: ignore[no-any-return]

    def read(self, samples: Any) -> Any:
        """Return a data set without the columns (a text) that the model does not take."""
        is_theirs = type(samples).__module__.partition(".")[0] == "datasets"
        return self.trainer._remove_unused_columns(samples) if is_theirs else samples

    def components(self) -> dict[str, Stateful]:
        """Return the optimizer, the schedule and everything that trainer and callbacks keep."""
        trainer = self.trainer

        def callbacks() -> dict[str, Any]:
            theirs = [each for each in trainer.callback_handler.callbacks if not isinstance(each, Hooks)]
            return {f"{number} {type(each).__name__}": each for number, each in enumerate(theirs)}

        modules = {id(each) for each in self.model.modules()}

        def others() -> dict[str, nn.Module]:
            held = {name: each for name, each in vars(trainer).items() if isinstance(each, nn.Module)}
            return {name: each for name, each in held.items() if id(each) not in modules and name != "model_wrapped"}

        self.deferred = {
            "optimizers": Deferred(lambda: ByName(self.optimizers)),
            "trainer_schedule": Deferred(lambda: trainer.lr_scheduler),
            "trainer_scaler": Deferred(lambda: trainer.accelerator.scaler),
        }
        self.state = Attributes(lambda: {"state": trainer.state}, OF_STATE)
        self.attributes = Attributes(
            lambda: {"trainer": trainer, **callbacks(), **_modules(self.model)}, ELSEWHERE | OF_A_MODULE
        )
        self.lost += self.attributes.left_out()
        self.modules = Modules(others)
        return {
            **self.deferred,
            "trainer_state": self.state,
            "trainer_attributes": self.attributes,
            "trainer_modules": self.modules,
        }

    def train(self, moments: Moments) -> None:
        """Call the trainer's own train(), with our hooks in it."""
        self.loader.waited = moments.waited
        self.hooks = Hooks(self, moments)
        with self.hooks.installed():
            self.trainer.train()

    def evaluate(self, samples: Any) -> dict[str, float]:
        """Return what the trainer's evaluate() measures, its names without `eval_`."""
        with evaluating(samples, self.trainer.data_collator):
            found = self.trainer.evaluate(eval_dataset=samples, metric_key_prefix="eval")
        return named(found)

    def measure(self, batch: Any) -> dict[str, Any]:
        """Return the loss of a batch, and logits and labels where the model gives them."""
        trainer = self.trainer
        inputs = trainer._prepare_inputs(batch)
        loss, outputs = trainer.compute_loss(trainer.model, inputs, return_outputs=True)
        logits = getattr(outputs, "logits", None) if not isinstance(outputs, Mapping) else outputs.get("logits")
        labels = inputs.get("labels") if isinstance(inputs, Mapping) else None
        found = {"loss": loss}
        return found if logits is None or labels is None else found | {"output": logits, "target": labels}

    def unwrap(self) -> None:
        """Take accelerate's autocast away from the model's forward, which would round what an export compares."""
        self.trainer.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)

    def _settle(self, seed: int) -> None:
        """Set the arguments that a run decides, and note which were other."""
        from transformers.trainer_callback import PrinterCallback, ProgressCallback
        from transformers.trainer_utils import SaveStrategy

        trainer, args = self.trainer, self.trainer.args
        args.seed = args.data_seed = seed
        if args.logging_nan_inf_filter:
            self.changed.append(
                "logging_nan_inf_filter is off: it would have replaced a loss that is not finite by a mean; such a "
                "loss ends the run before the update."
            )
        args.logging_nan_inf_filter, args.disable_tqdm = False, True
        args.dataloader_pin_memory = args.dataloader_pin_memory and torch.cuda.is_available()  # else torch warns
        if args.save_strategy != SaveStrategy.NO:
            self._every = args.save_steps if args.save_strategy == SaveStrategy.STEPS else None
            self.changed.append(
                "The trainer writes no checkpoint folders (save_strategy, save_total_limit): the run's own, which "
                "are verified and complete, take their place (checkpoints.* of the configuration)."
            )
        if args.load_best_model_at_end:
            self.changed.append("load_best_model_at_end is off: the run keeps the best checkpoint, and exports it.")
        self._join_sets()
        if args.push_to_hub:
            self.changed.append("push_to_hub is off: export_model writes the folder to upload.")
        args.save_strategy, args.load_best_model_at_end, args.push_to_hub = SaveStrategy.NO, False, False
        collator = trainer.data_collator
        if getattr(collator, "seed", None) is not None and callable(getattr(collator, "create_rng", None)):
            collator.seed = collator.generator = None
            self.changed.append(
                f"seed of {type(collator).__name__} is off: what it draws is keyed to the run's seed, epoch and sample."
            )
        for callback in list(trainer.callback_handler.callbacks):
            module = type(callback).__module__
            if module.startswith("transformers.integrations") or "jit_checkpoint" in module:
                trainer.remove_callback(type(callback))
                self.changed.append(f"{type(callback).__name__} is left out: the run records metrics and saves itself.")
            elif type(callback) in {PrinterCallback, ProgressCallback}:
                trainer.remove_callback(type(callback))

    def _join_sets(self) -> None:
        """Let what chooses by a metric of one evaluation set choose by the metric of all of them."""
        wanted, names = self.trainer.args.metric_for_best_model, ", ".join(self._sets)
        for name in self._sets:
            if wanted is not None and (plain := wanted.removeprefix("eval_")).startswith(f"{name}_"):
                self.trainer.args.metric_for_best_model = f"eval_{plain.removeprefix(f'{name}_')}"
                self.changed.append(
                    f"The evaluation sets ({names}) are measured together: metric_for_best_model, {wanted}, is "
                    f"{self.trainer.args.metric_for_best_model}."
                )
                return

    _every: int | None = None

    def _plan(self) -> Plan:
        trainer, args = self.trainer, self.trainer.args
        epochs, _, _, _, _, _, steps = trainer.set_initial_training_values(args, self.loader)
        return Plan(
            epochs=int(epochs),
            total_steps=int(steps),
            batch_size=args.per_device_train_batch_size,
            accumulation_steps=args.gradient_accumulation_steps,
            save_every_n_steps=self._save_steps(int(steps)),
        )

    def _save_steps(self, total_steps: int) -> int | None:
        every = self._every
        if every is None:
            return None
        return max(int(every * total_steps), 1) if every < 1 else int(every)

    def _require_possible(self) -> None:
        trainer, args = self.trainer, self.trainer.args
        if trainer.state.global_step:
            raise _refused("it was trained already", "return it before its train() is called")
        for name, why, remedy in REFUSED:
            if getattr(args, name, None):
                raise _refused(f"its {name} {why}", remedy)
        if args.world_size > 1 or args.n_gpu > 1:
            raise _refused(f"it would use {max(args.world_size, args.n_gpu)} devices", "let it see one device alone")
        missing = [name for name in Hooks.TAKEN if not callable(getattr(trainer, name, None))]
        if missing:
            raise releases.needed(f"A Trainer that is handed over (by its {missing[0]})", releases.TRAINER, PARTS)
        if isinstance(trainer.train_dataset, IterableDataset) or not hasattr(trainer.train_dataset, "__getitem__"):
            kind = type(trainer.train_dataset).__name__
            raise _refused(
                f"its train_dataset ({kind}) is a stream, in which a killed run could not go on where it was",
                "give a map-style data set; datasets.Dataset.from_generator makes one of a stream",
            )

    def _require_plain_steps(self) -> None:
        optimizer = self.trainer.optimizer
        if isinstance(optimizer, torch.optim.LBFGS):
            raise _refused(
                "its optimizer LBFGS measures the loss again in a closure, and Trainer gives it none",
                "use another optimizer, or hand over the parts as a `task` with optimizer: {name: lbfgs}",
            )


def _modules(model: nn.Module) -> dict[str, Any]:
    return {f"module {name}": each for name, each in model.named_modules()}


@contextmanager
def _unprepared(accelerator: Any) -> Iterator[None]:
    """Let `prepare` give back what it is given: a loader that reads one batch ahead could not be positioned."""
    accelerator.prepare = lambda *given, **_: given[0] if len(given) == 1 else given
    try:
        yield
    finally:
        del accelerator.prepare
