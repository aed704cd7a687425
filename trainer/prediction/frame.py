"""Frame of `predict.py`: what inputs and answers are, and the model's program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
}  # fmt: skip
MAX_SCORES = 20
"""Classes whose probabilities are answered, the likeliest first."""
Option = tuple[str, type, Any, str]
"""Name, kind, default and meaning of an option of the command line."""


class WrongInputError(Exception):
    """An input is not what the model takes: the value, the rule, and what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class NoAnswerError(WrongInputError):
    """A prepared input gets no answer: another size than the program takes, say. Its text does not name the input."""


@dataclass
class Sample:
    """What is known of one input beside its numbers."""

    place: dict[str, Any]
    """What names it among the answers: its row and further columns, its file, its text."""
    notes: list[str] = field(default_factory=list)
    """What a reader of its answer should know."""
    details: dict[str, Any] = field(default_factory=dict)
    """What its answer needs: the picture's own size, the times of a series."""


Batch = tuple[list[Sample], Inputs]
"""Inputs that are predicted together, by name, (samples, ...) each."""


class Rows(Protocol):
    """What a user has, as the program's inputs."""

    takes: ClassVar[str]
    """What is given, for the help."""
    stdin: ClassVar[str]
    """How a file's name ends that holds what `-` reads from standard input; empty: its text is the argument itself."""

    def __init__(self, schema: dict[str, Any], folder: Path) -> None: ...

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield the inputs that arguments name. Raises WrongInputError."""
        ...


class Answers(Protocol):
    """What a user wants, of the program's outputs."""

    options: ClassVar[tuple[Option, ...]]

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None: ...

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sample's answer, as JSON, and the outputs, (samples, ...)."""
        ...

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return an answer as lines of a table: one, or several."""
        ...


class Program:
    """The model's program: run by ONNX Runtime, or by torch where it is a `.pt2`.

    Args:
        path: its file.
        names: of its inputs, in the order in which torch takes them.
        threads: of one run; None: as many as the library takes.

    Attributes:
        batch: how many rows it takes at a time; None: any number.
    """

    def __init__(self, path: Path, names: Sequence[str] = (), threads: int | None = None) -> None:
        self.batch: int | None = None
        self.shapes: dict[str, list[int | str]] = {}
        self.types: dict[str, Any] = dict.fromkeys(names)
        if path.suffix != ".onnx":
            os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # numbers alone are read
            import torch

            self.torch: Any = torch
            self.module: Any = torch.export.load(path).module(check_guards=False)
            return
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = options.inter_op_num_threads = threads
        self.torch = None
        self.session: Any = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.types = {given.name: TYPES[given.type] for given in self.session.get_inputs()}
        self.shapes = {given.name: given.shape[1:] for given in self.session.get_inputs() if given.shape}
        first = [given.shape[0] for given in self.session.get_inputs() if given.shape]
        self.batch = next((size for size in first if isinstance(size, int)), None)

    def __call__(self, inputs: Mapping[str, Array]) -> Array:
        """Return the first output, (rows, ...), for inputs (rows, ...) by name, or in the program's order.

        Raises NoAnswerError where an ONNX program takes another size.
        """
        named = inputs if set(self.types) <= inputs.keys() else dict(zip(self.types, inputs.values(), strict=False))
        feed = {name: np.ascontiguousarray(named[name], dtype=kind) for name, kind in self.types.items()}
        for name, sizes in self.shapes.items():
            _require_shape(name, feed[name].shape[1:], sizes)
        count = len(next(iter(feed.values())))
        size = self.batch or max(count, 1)
        parts = [
            self._run({name: _filled(value[at : at + size], size) for name, value in feed.items()})
            for at in range(0, count, size)
        ]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts))[:count]

    def _run(self, feed: Inputs) -> Array:
        if self.torch is None:
            try:
                return np.asarray(self.session.run([self.session.get_outputs()[0].name], feed)[0])
            except Exception as problem:  # ONNX Runtime's own have no base: of sizes that the program does not declare
                sizes = ", ".join(f"{name} of {_size(value.shape[1:])}" for name, value in feed.items())
                told = str(problem).rpartition("Status Message: ")[2][:200]
                raise NoAnswerError(
                    f"the program does not run on its {sizes} ({told})",
                    "Give inputs like those of training, in size and values.",
                ) from problem
        with self.torch.no_grad():
            found = self.module(*(self.torch.from_numpy(value) for value in feed.values()))
        first = found if isinstance(found, self.torch.Tensor) else found[0]
        return np.asarray((first.float() if first.dtype == self.torch.bfloat16 else first).numpy())


def _require_shape(name: str, has: tuple[int, ...], wanted: Sequence[int | str]) -> None:
    """Compare the shape of a row with the program's, of which a text is any size. Raises NoAnswerError."""
    differs = any(isinstance(size, int) and size != one for size, one in zip(wanted, has, strict=False))
    if differs or len(has) != len(wanted):
        told = f"its {name} is {_size(has)}, the model takes {_size(wanted)}"
        raise NoAnswerError(told, "Give inputs of the size of training.")


def _size(shape: Sequence[int | str | None]) -> str:
    return " x ".join(str(size) if isinstance(size, int) else "any" for size in shape) or "one number"


def _filled(rows: Array, size: int) -> Array:
    """Return rows repeated up to the number that the program takes."""
    return rows if len(rows) == size else np.resize(rows, (size, *rows.shape[1:]))


def finite(outputs: Array, samples: Sequence[Sample]) -> Array:
    """Return outputs (samples, ...) as float64. Raises WrongInputError for a sample with one that is not finite."""
    found = np.asarray(outputs, dtype=np.float64)
    for sample, one in zip(samples, found, strict=True):
        if not np.isfinite(one).all():
            raise WrongInputError(
                f"{named(sample)}: the model gives no finite number for it.", "Look for absurd values in this input."
            )
    return found


def readable(problem: Exception) -> str:
    """Return what a reader of files says of one, to whoever gave it; none of its advice to read Python objects."""
    told = str(problem)
    if "allow_pickle" in told or "weights_only" in told:
        return "it holds Python objects, or no array at all, and is refused"
    return told


def probabilities(scores: Array, classes: int) -> Array:
    """Return probabilities (rows, classes) of scores (rows, classes), or of one score a row between two classes."""
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] == 1 and classes == 2:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    return shares_of(scores)


def shares_of(scores: Array) -> Array:
    """Return probabilities of scores, (..., classes): softmax over the last axis."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def chosen(shares: Sequence[float], classes: Sequence[str]) -> dict[str, Any]:
    """Return the likeliest class with its probability, and those of the likeliest ones, of (classes,)."""
    order = sorted(range(len(shares)), key=lambda place: -shares[place])[:MAX_SCORES]
    scores = {classes[place]: shares[place] for place in order}
    return {"label": classes[order[0]], "probability": shares[order[0]], "scores": scores}


def named(sample: Sample) -> str:
    """Return what an input is called in a message."""
    return next((f"{key} {value}" if key == "row" else str(value)[:60] for key, value in sample.place.items()), "input")
