"""Frame of `predict.py`: its command line, the model's program, and how answers are printed."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Inputs = dict[str, Array]
SCHEMA, WRONG_INPUT = "schema.json", 2
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


class WrongShapeError(WrongInputError):
    """An array has another size than the program takes."""


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

        Raises WrongShapeError where an ONNX program takes another size.
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
                raise WrongShapeError(
                    f"the program does not run on its {sizes} ({told})",
                    "Give inputs like those of training, in size and values.",
                ) from problem
        with self.torch.no_grad():
            found = self.module(*(self.torch.from_numpy(value) for value in feed.values()))
        first = found if isinstance(found, self.torch.Tensor) else found[0]
        return np.asarray((first.float() if first.dtype == self.torch.bfloat16 else first).numpy())


def _require_shape(name: str, has: tuple[int, ...], wanted: Sequence[int | str]) -> None:
    """Compare the shape of a row with the program's, of which a text is any size. Raises WrongShapeError."""
    differs = any(isinstance(size, int) and size != one for size, one in zip(wanted, has, strict=False))
    if differs or len(has) != len(wanted):
        told = f"its {name} is {_size(has)}, the model takes {_size(wanted)}"
        raise WrongShapeError(told, "Give inputs of the size of training.")


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


def parser_of(rows: type[Rows], answers: type[Answers], about: str) -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="predict.py", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", nargs="+", metavar="INPUT", help=f"{rows.takes}; -: standard input")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each input; else a CSV table")
    parser.add_argument("--outputs", type=Path, metavar="FILE.npy", help="write the program's outputs too")
    parser.add_argument("--inputs", type=Path, metavar="FILE.npz", help="write what the program is given too")
    for name, kind, default, meaning in answers.options:
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{meaning} (default: {default})")
    return parser


@cache
def opened_program(path: Path, names: tuple[str, ...]) -> Program:
    """Return the program of a file, which is read once."""
    return Program(path, names)


def answered(
    rows: type[Rows], answers: type[Answers], given: Sequence[str], options: Mapping[str, Any]
) -> Iterator[tuple[Batch, list[dict[str, Any]], Array, Answers]]:
    """Yield inputs with their answers, the program's outputs, and what worded them. Raises WrongInputError."""
    folder = Path(__file__).resolve().parent
    schema = json.loads((folder / SCHEMA).read_text(encoding="utf-8"))
    try:
        program = opened_program(folder / schema["program"]["file"], tuple(schema["program"]["inputs"]))
        answer, is_nothing = answers(schema, folder, options), True
        for batch in rows(schema, folder).batches(given):
            is_nothing = False
            try:
                found, outputs = answer(program, batch)
            except WrongShapeError as problem:
                raise WrongInputError(f"{named(batch[0][0])}: {problem}.", problem.remedy) from None
            yield batch, found, outputs, answer
    except ImportError as problem:
        raise WrongInputError(
            f"{problem}. predict.py needs {schema['needs']}.", f"pip install {schema['needs']}"
        ) from None
    if is_nothing:
        raise WrongInputError("There is nothing to predict.", rows.takes)


def predictions(
    rows: type[Rows], answers: type[Answers], given: Sequence[Any], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return `{"input", "answer", "notes"}` for inputs as `predict` takes them. Raises WrongInputError."""
    known = {name: default for name, _, default, _ in answers.options}
    if unknown := options.keys() - known.keys():
        raise TypeError(f"there is no option {sorted(unknown)[0]!r}; there are: {', '.join(known) or 'none'}")
    with tempfile.TemporaryDirectory(prefix="predict-") as place:
        arguments = [_argument(one, Path(place) / f"{number}.npy") for number, one in enumerate(given)]
        return [
            {"input": sample.place, "answer": answer, "notes": sample.notes}
            for batch, found, *_ in answered(rows, answers, arguments, known | dict(options))
            for sample, answer in zip(batch[0], found, strict=True)
        ]


def _argument(one: Any, place: Path) -> str:
    """Return what is given from Python as an argument of the command line: rows as JSON, an array as a file."""
    if isinstance(one, str | os.PathLike):
        return os.fspath(one)
    if isinstance(one, np.ndarray):
        np.save(place, one)
        return str(place)
    return json.dumps(one, default=lambda value: value.item() if isinstance(value, np.generic) else str(value))


def main(rows: type[Rows], answers: type[Answers], about: str, arguments: Sequence[str]) -> int:
    """Print the answers; return the exit status: 0, or 2 where an input is not what the model takes."""
    given, kept = parser_of(rows, answers, about).parse_args(arguments), list[tuple[Inputs, Array]]()
    printer, held = Printer(as_json=given.json), tempfile.TemporaryDirectory(prefix="predict-")
    try:
        inputs = [read_stdin(rows.stdin, Path(held.name)) if one == "-" else one for one in given.input]
        for batch, found, outputs, answer in answered(rows, answers, inputs, vars(given)):
            for sample, one in zip(batch[0], found, strict=True):
                printer.show(sample, one, answer.flat(one))
            kept.append((batch[1], outputs))
        for path, values in ((given.outputs, [one for _, one in kept]), (given.inputs, [one for one, _ in kept])):
            if path is not None:
                _write(path, values)
    except WrongInputError as problem:
        sys.stderr.write(f"{problem}\n{problem.remedy}\n")
        return WRONG_INPUT
    except BrokenPipeError:  # `| head` has read enough; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        held.cleanup()
    return 0


def read_stdin(ending: str, folder: Path) -> str:
    """Return the argument that standard input is: a file of this ending, or of JSON's where it holds that, or its text.

    Raises WrongInputError where it is to be text, and is none.
    """
    content = sys.stdin.buffer.read()
    if not ending:
        try:
            return content.decode("utf-8-sig").removesuffix("\n")
        except UnicodeDecodeError as problem:
            raise WrongInputError(f"-: it is no text in UTF-8 ({problem.reason}).", "Give text.") from None
    if content.lstrip()[:1] in {b"{", b"["}:
        try:
            json.loads(content)
            ending = ".json"
        except ValueError:
            with suppress(ValueError):
                json.loads(content.lstrip().splitlines()[0])
                ending = ".jsonl"
    path = folder / f"stdin{ending}"
    path.write_bytes(content)
    return str(path)


def _write(path: Path, values: Iterable[Any]) -> None:
    """Write arrays of all batches: outputs as .npy, inputs by name as .npz; those of other shapes filled with zeros."""
    values = list(values)
    try:
        if not isinstance(values[0], dict):
            np.save(path, stacked(values))
            return
        arrays: dict[str, Any] = {name: stacked([one[name] for one in values]) for name in values[0]}
        np.savez(path, **arrays)
    except OSError as problem:
        raise WrongInputError(
            f"{path}: {problem.strerror or problem}.", "Name a file in a folder that is there."
        ) from None


def stacked(arrays: Sequence[Array]) -> Array:
    """Return arrays (rows, ...) one behind the other, each filled with zeros to the largest size."""
    sizes = np.max([one.shape[1:] for one in arrays], axis=0, initial=0)
    wide = [np.pad(one, [(0, 0), *((0, int(most) - have) for most, have in zip(sizes, one.shape[1:], strict=True))])
            for one in arrays]  # fmt: skip
    return np.concatenate(wide)


class Printer:
    """Prints answers as they come: a table, whose last column has notes, or a JSON object in each line."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.table: csv.DictWriter[str] | None = None

    def show(self, sample: Sample, answer: dict[str, Any], lines: Sequence[dict[str, Any]]) -> None:
        """Print an answer."""
        if self.as_json:
            one = {"input": sample.place, "answer": answer, **({"notes": sample.notes} if sample.notes else {})}
            sys.stdout.write(json.dumps(one, ensure_ascii=False, allow_nan=False, default=str) + "\n")
            return
        for place, line in enumerate(lines):
            cells = {**sample.place, **line}
            cells["note_of_prediction" if "note" in cells else "note"] = "" if place else "; ".join(sample.notes)
            if self.table is None:
                self.table = csv.DictWriter(sys.stdout, list(cells), restval="", extrasaction="ignore")
                self.table.writeheader()
            self.table.writerow(cells)
