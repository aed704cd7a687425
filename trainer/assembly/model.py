"""Building the model of a configuration: a built-in one sized by the data and the loss, or the user's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import IterableDataset

from trainwright.trainer.assembly.dry_run import bytes_of_weights, require_room
from trainwright.trainer.assembly.output_format import vocabulary_argument, vocabulary_place
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.first_look import first_sample
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.models import MODELS
from trainwright.trainer.models.arguments import Surroundings
from trainwright.trainer.objectives.supervised import split_batch
from trainwright.trainer.user_code.constructions import remembered
from trainwright.trainer.user_code.entries import call_entry, is_entry, require_network, resolve_entry

# Building of a session's parts: as they are, or (for an estimate) as sizes without memory.


class Building:
    """Parts as they are: those of every run.

    Attributes:
        imagined: whether parts have sizes and no contents; then no weights are read, and no batch is tried.
    """

    imagined: bool = False

    def model(self) -> AbstractContextManager[object]:
        """Return the context in which a model, and what is put into it, is built."""
        return nullcontext()

    def built(self, model: nn.Module) -> nn.Module:
        """Return the model that is used in place of one that the user's task handed over."""
        return model


AS_IT_IS = Building()


NUMBERS = {"loss": "mse", "target_scaling": "standardize"}
"""Changes for a target that is a number to predict."""


def build_model(
    config: TrainingConfig, code_root: Path, splits: Splits, loss: Loss, building: Building = AS_IT_IS
) -> nn.Module:
    """Build the model; one by name takes its sizes from the data and the loss.

    Raises:
        ConfigurationError, UserCodeError, DataError: as the part that is wrong deserves.
    """
    entry = config.model
    assert entry is not None, "the schema requires it"  # noqa: S101
    if is_entry(entry.use):
        function = resolve_entry(entry.use, code_root, key="model.use")
        args = {**entry.args, **vocabulary_argument(function, entry.args, splits)}
        with building.model(), remembered() as keep:
            model = call_entry(function, args, f"model `{entry.use}`", code_root)
            keep(model)
    else:
        model = _built_in(entry, splits, loss, config.objective.model_outputs, code_root, building)
    require_network(model, f"model `{entry.use}`")
    if not isinstance(model, nn.Module):
        raise ConfigurationError(
            f"model `{entry.use}` gave a {type(model).__name__}; it must be a torch.nn.Module.",
            remedy="Name the class of the model, or a function that returns an instance.",
        )
    return model


def place_of_vocabulary(config: TrainingConfig, code_root: Path, splits: Splits) -> str | None:
    """Return where the size of a text source's vocabulary is passed, in words; None where it is not, or is none."""
    entry = config.model
    if entry is None or splits.text is None:
        return None
    if not is_entry(entry.use):
        return "as the built-in model's outputs"
    return vocabulary_place(resolve_entry(entry.use, code_root, key="model.use"), entry.args)


def files_of_model(config: TrainingConfig, code_root: Path) -> list[Path]:
    """Return the files that the model's first weights come from; none for random ones."""
    entry = config.model
    known = MODELS.get(entry.use) if entry is not None else None
    return [] if entry is None or known is None else known.model_validate(entry.args).files(code_root)


def _built_in(  # noqa: PLR0917 - all that a model is sized by
    entry: Entry, splits: Splits, loss: Loss, outputs: int | None, code_root: Path, building: Building
) -> nn.Module:
    section = MODELS[entry.use].model_validate(entry.args)
    if section.sized_by_inputs:
        inputs, target = _first_sample(entry, splits)
        section.require_input(entry.use, inputs, loss)
        shape, outputs = tuple(inputs.shape), outputs or outputs_of(splits, loss, target)
    else:
        shape, outputs = (), outputs_of(splits, loss, split_batch(first_sample(splits.samples["train"]))[2])
    room = _unlimited if building.imagined else partial(require_room, f"{entry.use} model", entry.args)
    make = partial(section.build, Surroundings(shape, outputs, splits, loss, code_root, room, building.imagined))
    try:
        if not section.of_library and not building.imagined:
            require_room(entry.use, section.model_dump(), partial(bytes_of_weights, make))
        with building.model():
            return make()
    except ValueError as error:  # only the data can show it; the schema has checked the rest
        raise ConfigurationError(
            f"`model.args` of {entry.use}: {error}.", remedy="Correct model.args.", document="configs/models.md"
        ) from error


def _unlimited(bytes_of: Callable[[Any], int]) -> None:
    """Refuse nothing: what has no contents takes no memory here."""


def _first_sample(entry: Entry, splits: Splits) -> tuple[Tensor, Any]:
    sample = first_sample(splits.samples["train"])
    if not isinstance(sample, tuple | list) or len(sample) != 2 or not isinstance(sample[0], Tensor):
        raise ConfigurationError(
            f"The model {entry.use} needs samples (inputs, target) of tensors.",
            remedy='Use a model of your own: model: {use: "module:callable"}.',
        )
    return sample[0], sample[1]


def outputs_of(splits: Splits, loss: Loss, target: Any) -> int:
    """Return how many outputs the model needs: one per class, per token of the vocabulary, or per target value.

    Raises:
        DataError: the data does not say how many.
    """
    if splits.outputs is not None:
        return splits.outputs
    of_numbers = loss.task is None and isinstance(target, Tensor) and target.is_floating_point()
    if loss.task in {"regression", "binary"} or of_numbers:
        return max(target.numel() if isinstance(target, Tensor) else 1, 1)
    if splits.text is not None and loss.task == "language_model":
        return splits.text.vocabulary_size
    if splits.class_names is not None:
        return len(splits.class_names)
    labels = [label for record in splits.records.values() for label in record.labels]
    for name, record in splits.records.items():
        if record.sampled and isinstance(splits.samples[name], IterableDataset):
            raise DataError(
                f"The {name} split is a stream of which only the first {len(record.digests)} samples are read before "
                "training: they do not show how many classes there are.",
                remedy='Use a model of your own that knows it: model: {use: "module:callable"}.',
            )
    if not labels:
        raise DataError(
            f"{loss.name} needs class labels, and the targets are no integers.",
            remedy="A number to predict needs loss mse (mae, huber), mostly with target_scaling standardize, and "
            "metrics like r2 or mae; text needs next_token; classes need integer labels, or task classification.",
            document="configs/losses.md",
            details={"changes": NUMBERS} if isinstance(target, Tensor) and target.is_floating_point() else None,
        )
    return max(labels) + 1
