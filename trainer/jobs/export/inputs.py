"""Inputs of an exported program: real rows by name, in the units in which deployment sends them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from trainwright.trainer.assembly.loaders import make_loader
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.plain_values import input_name
from trainwright.trainer.data.tensors import InMemory
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.multi_task import MultiTask
from trainwright.trainer.objectives.supervised import Supervised, split_batch

ROWS = 64
COLLATED = 3
"""Batches whose collation is compared with plain stacking."""
Inputs = dict[str, Tensor]


def rows_loader(session: Session) -> BatchLoader:
    """Return a loader of all validation rows (else train rows) in their order, in this process."""
    split = "validation" if "validation" in session.work.splits.samples else "train"
    loader = make_loader(session.config, session.work, split)
    return replace(loader, shuffle=False, num_workers=0, drop_last=False, share=None, pin_memory=False)


def raw_loader(session: Session) -> BatchLoader:
    """Return `rows_loader` over the rows as the source has them, where the engine prepares them for the model."""
    loader = rows_loader(session)
    return replace(loader, samples=getattr(loader.samples, "raw", loader.samples))


def model_inputs(session: Session, batch: Any) -> Inputs | None:
    """Return the model's inputs in a batch (or a sample) by name; None where they are no plain tensors."""
    args, named, _ = split_batch(batch)
    objective = session.validation_objective
    if isinstance(objective, MultiTask) and isinstance(batch, Mapping):
        sources = {part.source for part in objective.parts}
        named = {name: value for name, value in batch.items() if name not in sources}
    inputs = {**{input_name(number, len(args)): value for number, value in enumerate(args)}, **named}
    if not isinstance(objective, Supervised | MultiTask):
        inputs = _taken(session.model, inputs, by_keyword=isinstance(batch, Mapping))
    if not inputs or not all(isinstance(value, Tensor) for value in inputs.values()):
        return None
    return {name: value.cpu() for name, value in inputs.items()}


def _taken(model: nn.Module, inputs: dict[str, Any], *, by_keyword: bool) -> dict[str, Any]:
    """Return those that the model's forward has parameters for: a step of the user's may read others itself."""
    given = inspect.signature(model.forward).parameters.values()
    if by_keyword:
        names = {one.name for one in given}
        free = any(one.kind is one.VAR_KEYWORD for one in given)
        return inputs if free else {name: value for name, value in inputs.items() if name in names}
    free = any(one.kind is one.VAR_POSITIONAL for one in given)
    places = [one for one in given if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
    return inputs if free else dict(islice(inputs.items(), len(places)))


class Rows(Protocol):
    """Rows on which a program is traced and compared."""

    @property
    def ragged(self) -> bool:
        """Whether rows differ in shape: a program gets each alone."""
        ...

    @property
    def vocabulary(self) -> int | None:
        """Bound of token ids, where inputs are tokens."""
        ...

    def batches(self) -> Iterator[Inputs]:
        """Yield all rows by the names of the model's inputs, batch by batch."""
        ...

    def singles(self, count: int) -> list[Inputs]:
        """Return the first of ragged rows, each alone."""
        ...


@dataclass(frozen=True)
class Example:
    """The user's `example_input` in place of rows."""

    inputs: Inputs
    ragged: bool = False
    vocabulary: int | None = None

    def batches(self) -> Iterator[Inputs]:
        """Yield the example."""
        yield self.inputs

    def singles(self, count: int) -> list[Inputs]:  # noqa: ARG002 - as Rows has it
        """Return none."""
        return []


@dataclass(frozen=True)
class RealRows:
    """Validation rows (else train rows) as the source gives them: before preprocessing, in the source's types.

    Attributes:
        ragged: whether rows differ in shape: a program gets each alone.
        types: of inputs whose samples have another type than their batches.
        caveat: why a program gives other figures on stored rows than the model on these: the collate changes values.
    """

    session: Session
    ragged: bool = False
    types: dict[str, torch.dtype] = field(default_factory=dict)
    caveat: ConfigurationError | None = None

    def batches(self) -> Iterator[Inputs]:
        """Yield all of them, batch by batch. Raises ConfigurationError where they are no plain tensors."""
        for batch in raw_loader(self.session).batches(0):
            inputs = model_inputs(self.session, batch)
            if inputs is None:
                raise not_tensors()
            yield self._typed(inputs)

    def first(self, inputs: Inputs) -> Inputs:
        """Return the first batch's rows as the source gave them; `inputs` are those of the model."""
        is_prepared = self.session.work.splits.preprocessing is not None
        return next(self.batches()) if is_prepared else self._typed(inputs)

    def singles(self, count: int) -> list[Inputs]:
        """Return the first of ragged rows, each alone and as long as it is; none where all have one shape."""
        if not self.ragged:
            return []
        loader = raw_loader(self.session)
        if loader.batch_size is None:
            return [{name: value[:1] for name, value in inputs.items()} for inputs in islice(self.batches(), count)]
        collate = loader.collate or default_collate
        items = next(replace(loader, collate=list).batches(0))[:count]
        alone = [model_inputs(self.session, collate([item])) for item in items]
        return [self._typed(inputs) for inputs in alone if inputs is not None]

    @property
    def vocabulary(self) -> int | None:
        """The bound of token ids, where the source gives tokens."""
        text = self.session.work.splits.text
        return text.vocabulary_size if text is not None else None

    def _typed(self, inputs: Inputs) -> Inputs:
        return {name: value.to(self.types.get(name, value.dtype)) for name, value in inputs.items()}


def not_tensors() -> ConfigurationError:
    """Return the error for inputs that no program takes."""
    return ConfigurationError(
        "The model's inputs are no plain tensors, so they cannot be exported by example.",
        remedy="Give samples whose inputs are tensors, (x, y), (x1, x2, y) or a dict by parameter name; or return "
        "`example_input` (a tuple of tensors, batch first) from the task, or leave onnx out.",
        details={"changes": {"deployment.formats": ["safetensors"]}},
    )


def other_rows() -> ConfigurationError:
    """Return the error for samples whose values are others when they are read again."""
    return ConfigurationError(
        "The rows have other values each time that they are read, so that nothing can be compared on them.",
        remedy="Change a copy in __getitem__ (x.clone(), row.copy()), and draw from torch, numpy.random or random "
        "alone, which are keyed to each sample.",
        document="reproducibility/seed_control.md",
    )


def real_rows(session: Session) -> RealRows:
    """Return the rows, after a check on some that stacking them gives the model's inputs.

    Raises:
        ConfigurationError: the user's collate makes other inputs than the rows have.
    """
    loader = raw_loader(session)
    if isinstance(loader.samples, InMemory) and loader.collate is None and loader.batch_size is not None:
        return RealRows(session)
    if loader.batch_size is None:  # each item is a batch already, whose rows are stored one by one
        return RealRows(session, ragged=_differ(session, loader))
    ragged, types, caveat = False, dict[str, torch.dtype](), None
    batches = loader.batches(0), replace(loader, collate=list).batches(0)
    for made, items in islice(zip(*batches, strict=True), COLLATED):
        inputs, rows = model_inputs(session, made), [_row(session, item, made) for item in items]
        if inputs is None:
            raise not_tensors()
        if not _is_stack(inputs, rows):
            if loader.collate is None:  # which stacks the rows as they are
                raise other_rows()
            alone = [model_inputs(session, loader.collate([item])) for item in items]
            if not all(one is not None and _is_stack(one, [row]) for one, row in zip(alone, rows, strict=True)):
                caveat = _collated(inputs, rows)
                if not _takes(inputs, rows):
                    raise caveat
                continue
            ragged = True
        types |= {name: rows[0][name].dtype for name, value in inputs.items() if rows[0][name].dtype != value.dtype}
    return RealRows(session, ragged, types, caveat)


def _takes(inputs: Inputs, rows: list[dict[str, Any]]) -> bool:
    """Return whether a program that takes the batch's rows would take the samples as they are."""
    return all(
        isinstance(row.get(name), Tensor) and (row[name].shape, row[name].dtype) == (value.shape[1:], value.dtype)
        for name, value in inputs.items()
        for row in rows
    )


def _differ(session: Session, loader: BatchLoader) -> bool:
    """Return whether the first batches hold rows of different shapes."""
    found = [model_inputs(session, batch) for batch in islice(loader.batches(0), COLLATED)]
    return len({tuple(value.shape[1:] for value in (inputs or {}).values()) for inputs in found}) > 1


def _row(session: Session, item: Any, batch: Any) -> dict[str, Any]:
    """Return one sample's inputs as tensors, as the stored rows have them: of its columns those of its batch."""
    if isinstance(item, Mapping):
        item = {name: _tensor(value) for name, value in item.items() if name in batch}
    elif isinstance(item, tuple | list):
        item = tuple(_tensor(value) for value in item)
    else:
        item = _tensor(item)
    return model_inputs(session, item) or {}


def _tensor(value: Any) -> Any:
    try:
        return torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    except (TypeError, ValueError, RuntimeError):
        return value


def _is_stack(inputs: Inputs, rows: list[dict[str, Any]]) -> bool:
    """Return whether the batch's inputs are the rows, one behind the other."""
    for name, value in inputs.items():
        column = [row.get(name) for row in rows]
        if not all(isinstance(one, Tensor) and one.shape == value.shape[1:] for one in column):
            return False
        stacked = torch.stack([one for one in column if one is not None])
        if stacked.to(value.dtype).shape != value.shape or not torch.equal(
            _bits(stacked.to(value.dtype)), _bits(value)
        ):
            return False
    return True


def _bits(value: Tensor) -> Tensor:
    return torch.nan_to_num(value) if value.is_floating_point() else value


def _collated(inputs: Inputs, rows: list[dict[str, Any]]) -> ConfigurationError:
    made = ", ".join(f"{name} {tuple(value.shape[1:])} {_kind(value)}" for name, value in inputs.items())
    row = ", ".join(f"{name} {tuple(getattr(value, 'shape', ()))} {_kind(value)}" for name, value in rows[0].items())
    return ConfigurationError(
        f"Your collate makes the model's inputs ({made} for each row) out of samples that hold other values "
        f"({row or 'no tensors'}): a program that gets the samples would lack that step.",
        remedy="Make the inputs in the data set's __getitem__, or in the model's forward, so that stacking samples "
        "gives what the model takes; padding rows of different length is fine.",
        document="configs/your_code.md",
    )


def _kind(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__


def example_rows(session: Session) -> tuple[Inputs, bool]:
    """Return raw inputs of at most ROWS samples (validation, else train) by name, and whether they are of samples.

    They are the user's `example_input` where that is of another kind than the inputs that the batches hold.

    Raises:
        ConfigurationError: there are no plain tensors and no example.
    """
    real, example = _real_inputs(session), _example(session)
    if example is None and real is None:
        raise not_tensors()
    if example is None or real is None:
        return real or example or {}, real is not None
    if example.keys() <= real.keys():
        return (real, True) if all(_alike(real[name], example[name]) for name in example) else (example, False)
    ordered = list(real.values())
    if real.keys() & example.keys() or len(ordered) != len(example) or not all(map(_alike, ordered, example.values())):
        return example, False
    return dict(zip(example, ordered, strict=True)), True


def _alike(real: Tensor, example: Any) -> bool:
    """Return whether both are batches of the same kind of sample."""
    return isinstance(example, Tensor) and (real.dtype, real.shape[1:]) == (example.dtype, example.shape[1:])


def batches_are_named(session: Session) -> bool:
    """Return whether the model is called by keyword, with dicts."""
    return isinstance(next(rows_loader(session).batches(0)), Mapping)


def _example(session: Session) -> dict[str, Any] | None:
    """Return the user's `example_input` by name; None where there is none.

    A tuple is by place: where the batches name inputs, those of forward's parameters.
    """
    example = session.work.example_input
    if example is None or isinstance(example, Mapping):
        return None if example is None else dict(example)
    listed = [example] if isinstance(example, Tensor) else list(example)
    names = [input_name(n, len(listed)) for n in range(len(listed))]
    if batches_are_named(session):
        names = _places(session.model, len(listed)) or names
    return dict(zip(names, listed, strict=True))


def _places(model: nn.Module, count: int) -> list[str]:
    """Return the names of forward's first parameters; none where it takes any. Raises ConfigurationError: too few."""
    given = inspect.signature(model.forward).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in given):
        return []
    names = [one.name for one in given if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
    if len(names) < count:
        raise ConfigurationError(
            f"`example_input` is a tuple of {count}, so by place, and {type(model).__name__}.forward takes "
            f"{len(names)} ({', '.join(names)}).",
            remedy="Return a dict by the names of forward's parameters, as the samples are dicts; or leave "
            "example_input out where the samples hold all inputs.",
            document="configs/your_code.md",
        )
    return names[:count]


def _real_inputs(session: Session) -> Inputs | None:
    """Return the inputs of at most ROWS samples by name; None where they are no plain tensors."""
    loader = raw_loader(session)
    if loader.batch_size is not None:
        loader = replace(loader, batch_size=ROWS)
    inputs = model_inputs(session, next(loader.batches(0)))
    return None if inputs is None else {name: value[:ROWS] for name, value in inputs.items()}
