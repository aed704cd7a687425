"""Command line of `predict.py`: answers of one input after the other, printed, and a word on each that is refused."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainwright.trainer.prediction.frame import (
    Answers,
    Array,
    Batch,
    NoAnswerError,
    Program,
    Rows,
    Sample,
    WrongInputError,
    named,
)

SCHEMA, WRONG_INPUT = "schema.json", 2


def parser_of(rows: type[Rows], answers: type[Answers], about: str) -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="predict.py", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", nargs="+", metavar="INPUT", help=f"{rows.takes}; -: standard input")
    in_lines = "print a JSON object for each input: its answer, or its error; else a CSV table"
    parser.add_argument("--json", action="store_true", help=in_lines)
    parser.add_argument("--outputs", type=Path, metavar="FILE.npy", help="write the program's outputs too")
    parser.add_argument("--inputs", type=Path, metavar="FILE.npz", help="write what the program is given too")
    for name, kind, default, meaning in answers.options:
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{meaning} (default: {default})")
    return parser


@cache
def opened_program(path: Path, names: tuple[str, ...]) -> Program:
    """Return the program of a file, which is read once."""
    return Program(path, names)


class Answered(NamedTuple):
    """Some inputs of an argument, with their answers."""

    batch: Batch
    answers: list[dict[str, Any]]
    outputs: Array
    worded_by: Answers


class Refused(NamedTuple):
    """An argument that is not answered, or not to its end."""

    argument: str
    problem: WrongInputError


def answered(
    rows: type[Rows], answers: type[Answers], given: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Answered | Refused]:
    """Yield what arguments name with its answers; one that is wrong is refused alone, and the next ones are answered.

    Raises WrongInputError where no input can be answered: the folder lacks something, or a package is not there.
    """
    folder = Path(__file__).resolve().parent
    schema = json.loads((folder / SCHEMA).read_text(encoding="utf-8"))
    try:
        program = opened_program(folder / schema["program"]["file"], tuple(schema["program"]["inputs"]))
        reader, answer = rows(schema, folder), answers(schema, folder, options)
        for argument in given:
            try:
                for one in _of_argument(argument, reader, program, answer):
                    if len(given) > 1:
                        _name_argument(argument, one.batch[0])
                    yield one
            except WrongInputError as problem:
                yield Refused(argument, problem)
    except ImportError as problem:
        raise WrongInputError(
            f"{problem}. predict.py needs {schema['needs']}.", f"pip install {schema['needs']}"
        ) from None


def _of_argument(argument: str, rows: Rows, program: Program, answer: Answers) -> Iterator[Answered]:
    is_nothing = True
    for batch in rows.batches([argument]):
        is_nothing = False
        try:
            found, outputs = answer(program, batch)
        except NoAnswerError as problem:
            raise WrongInputError(f"{named(batch[0][0])}: {problem}.", problem.remedy) from None
        yield Answered(batch, found, outputs, answer)
    if is_nothing:
        raise WrongInputError(f"{argument[:60]}: there is nothing to predict.", rows.takes)


def _name_argument(argument: str, samples: Sequence[Sample]) -> None:
    """Let the answers to one of several arguments name it, where they do not."""
    name = {"file" if os.path.isfile(argument) else "input": argument}  # noqa: PTH113 - a text may be too long a name
    for sample in samples:
        if argument not in sample.place.values():
            sample.place = name | sample.place


def predictions(
    rows: type[Rows], answers: type[Answers], given: Sequence[Any], options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return `{"input", "answer", "notes"}` for inputs as `predict` takes them. Raises WrongInputError."""
    known = {name: default for name, _, default, _ in answers.options}
    if unknown := options.keys() - known.keys():
        raise TypeError(f"there is no option {sorted(unknown)[0]!r}; there are: {', '.join(known) or 'none'}")
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="predict-") as place:
        arguments = [_argument(one, Path(place) / f"{number}.npy") for number, one in enumerate(given)]
        for one in answered(rows, answers, arguments, known | dict(options)):
            if isinstance(one, Refused):
                raise one.problem
            found += [
                {"input": sample.place, "answer": answer, "notes": sample.notes}
                for sample, answer in zip(one.batch[0], one.answers, strict=True)
            ]
    return found


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
    given, kept = parser_of(rows, answers, about).parse_args(arguments), list[Answered]()
    printer, held = Printer(as_json=given.json), tempfile.TemporaryDirectory(prefix="predict-")
    try:
        inputs = [read_stdin(rows.stdin, Path(held.name)) if one == "-" else one for one in given.input]
        for one in answered(rows, answers, inputs, vars(given)):
            if isinstance(one, Refused):
                printer.refuse(one)
                continue
            for sample, answer in zip(one.batch[0], one.answers, strict=True):
                printer.show(sample, answer, one.worded_by.flat(answer))
            kept.append(one)
        for path, values in (
            (given.outputs, [one.outputs for one in kept]),
            (given.inputs, [one.batch[1] for one in kept]),
        ):
            if path is not None and kept:
                _write(path, values)
    except WrongInputError as problem:
        sys.stderr.write(f"{problem}\n{problem.remedy}\n")
        return WRONG_INPUT
    except BrokenPipeError:  # `| head` has read enough; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        held.cleanup()
    if printer.refused and len(inputs) > 1:
        sys.stderr.write(f"{printer.refused} of {len(inputs)} inputs refused; the others are answered.\n")
    return WRONG_INPUT if printer.refused else 0


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
        self.as_json, self.refused, self.remedy = as_json, 0, ""
        self.table: csv.DictWriter[str] | None = None

    def refuse(self, one: Refused) -> None:
        """Tell on standard error why an argument is not answered, and of JSON in its place; a remedy once in a row."""
        self.refused += 1
        told, remedy, begun = str(one.problem), one.problem.remedy, one.argument[:60]
        if told.startswith(f"{begun}: ") or begun[:40] not in told:
            name = one.argument if len(one.argument.split()) == 1 else begun  # a path is told whole
            told = f"{name}: {told.removeprefix(f'{begun}: ')}"
        if self.as_json:
            self._line({"input": {"input": one.argument}, "error": told, "remedy": remedy})
        sys.stderr.write(f"{told}\n" + f"{remedy}\n" * (remedy != self.remedy))
        self.remedy = remedy

    def _line(self, one: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(one, ensure_ascii=False, allow_nan=False, default=str) + "\n")

    def show(self, sample: Sample, answer: dict[str, Any], lines: Sequence[dict[str, Any]]) -> None:
        """Print an answer."""
        if self.as_json:
            self._line({"input": sample.place, "answer": answer, **({"notes": sample.notes} if sample.notes else {})})
            return
        for place, line in enumerate(lines):
            cells = {**sample.place, **line}
            cells["note_of_prediction" if "note" in cells else "note"] = "" if place else "; ".join(sample.notes)
            if self.table is None:
                self.table = csv.DictWriter(sys.stdout, list(cells), restval="", extrasaction="ignore")
                self.table.writeheader()
            self.table.writerow(cells)
