"""Raw inputs and answers by functions of the user's, which are shipped as source beside this file."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.prediction.frame import (
    Array,
    Batch,
    Inputs,
    NoAnswerError,
    Option,
    Program,
    Sample,
    WrongInputError,
    finite,
    readable,
)

RUN = "run"
"""Parameter of a `present` that calls the program itself."""


def shipped_function(entry: str, folder: Path) -> Any:
    """Return the function that `file.py:name` names below a folder, whose files it may import."""
    place, _, name = entry.partition(":")
    sys.path[:0] = [str((folder / place).parent), str(folder / Path(place).parts[0])]
    spec = importlib.util.spec_from_file_location(Path(place).stem, folder / place)
    if spec is None or spec.loader is None:
        raise WrongInputError(f"{place} is no file of Python.", "Take the folder as it was released.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def _told(problem: Exception) -> str:
    """Return an error of the user's function: a ValueError's or ours, which are for the caller; else its kind too."""
    told = readable(problem)
    is_meant = isinstance(problem, ValueError | WrongInputError) or told != str(problem)
    return (told if is_meant else f"{type(problem).__name__}: {told}") or type(problem).__name__


class OwnRows:
    """Inputs that the user's `prepare` turns into a sample each."""

    takes: ClassVar[str] = "inputs as the user's prepare takes them: each argument is one"
    stdin: ClassVar[str] = ""

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:
        self.names: list[str] = schema["program"]["inputs"]
        self.prepare = shipped_function(schema["own"]["prepare"], folder)

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield samples one by one, by the names of the model's inputs. Raises WrongInputError for what it refuses."""
        for argument in given:
            try:
                made = self.prepare(argument)
            except ImportError:
                raise
            except Exception as problem:
                raise WrongInputError(
                    f"{argument[:60]}: {_told(problem)}", "The folder's code says what prepare takes."
                ) from problem
            yield [Sample({"input": argument})], one_sample(argument[:60], made, self.names)


def one_sample(told: str, made: Any, names: Sequence[str]) -> Inputs:
    """Return what a `prepare` made as a batch of one, by the names of the model's inputs.

    Raises WrongInputError, whose words begin with `told`, where it lacks one or has more.
    """
    listed = made if isinstance(made, tuple | list) and len(names) > 1 else (made,)
    named = made if isinstance(made, Mapping) else dict(zip(names, listed, strict=False))
    if not named.keys() >= set(names) or len(listed) > len(names):
        count = f"{len(listed)} array{'s' * (len(listed) != 1)}"
        given = ", ".join(map(str, made)) if isinstance(made, Mapping) else count
        raise WrongInputError(
            f"{told}: prepare gave {given or 'nothing'}, the program takes {', '.join(names)}.",
            "Let it return an array for each of them, in this order as a tuple or by name as a dict.",
        )
    return {name: np.asarray(named[name])[None] for name in names}


class OwnAnswers:
    """What the user's `present` makes of each output, and of the input itself where it takes two.

    One that has a parameter `run` may call the program again, with what its `prepare` returns: to write on, letter by
    letter, or to look at parts of an input.
    """

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.present = shipped_function(schema["answer"]["present"], folder)
        self.names: list[str] = schema["program"]["inputs"]
        parameters = inspect.signature(self.present).parameters
        self.takes_run = RUN in parameters
        self.takes_input = len(parameters) - self.takes_run > 1

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sample's answer as `present` gives it, and the outputs. Raises WrongInputError where it fails."""
        outputs = program(batch[1])
        found = [self._presented(program, *one) for one in zip(finite(outputs, batch[0]), batch[0], strict=True)]
        return found, outputs

    def _presented(self, program: Program, output: Array, sample: Sample) -> dict[str, Any]:
        def run(made: Any) -> Array:
            found: Array = finite(program(one_sample("run", made, self.names)), [sample])[0]
            return found

        given = [next(iter(sample.place.values()))] * self.takes_input
        try:
            found = self.present(output, *given, **({RUN: run} if self.takes_run else {}))
            json.dumps(found, allow_nan=False, default=str)
        except ImportError:
            raise
        except Exception as problem:
            told = f"present fails on its output: {_told(problem)}"
            raise NoAnswerError(told, "The folder's code says what present takes.") from problem
        return found if isinstance(found, dict) else {"value": found}

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answer."""
        return [answer]
