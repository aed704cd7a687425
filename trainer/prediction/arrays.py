"""Arrays, as the model's samples are: NumPy files, or their numbers as JSON."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.prediction.frame import Batch, Inputs, Sample, WrongInputError, readable

AT_ONCE = 64


class ArrayRows:
    """Samples of one shape, in the order of the file."""

    takes: ClassVar[str] = (
        'NumPy files: .npy, or .npz with the model\'s inputs by name; or the numbers as JSON: [0.5, 2], {"x": [0.5, 2]}'
    )
    stdin: ClassVar[str] = ".npy"

    def __init__(self, schema: dict[str, Any], folder: Path) -> None:  # noqa: ARG002 - as of the others
        self.arrays: dict[str, dict[str, Any]] = schema["arrays"]

    def batches(self, given: Sequence[str]) -> Iterator[Batch]:
        """Yield samples, (samples, ...) by the names of the model's inputs. Raises WrongInputError."""
        for argument in given:
            inputs = self._read(argument)
            count = len(next(iter(inputs.values())))
            for start in range(0, count, AT_ONCE):
                some = {name: value[start : start + AT_ONCE] for name, value in inputs.items()}
                size = len(next(iter(some.values())))
                yield [Sample({"row": start + n + 1}, self._notes(some, n)) for n in range(size)], some

    def _read(self, argument: str) -> Inputs:
        shapes = "; ".join(f"{name} {tuple(one['shape'])} {one['dtype']}" for name, one in self.arrays.items())
        remedy = f"A sample is {shapes}: save samples one behind the other (numpy.save, numpy.savez)."
        try:
            if argument.endswith(".json") or argument.lstrip()[:1] in {"[", "{"}:
                held = _of_json(Path(argument).read_text("utf-8") if argument.endswith(".json") else argument)
            else:
                found = np.load(argument, allow_pickle=False)
                held = {name: found[name] for name in found.files} if hasattr(found, "files") else {"": found}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
            raise WrongInputError(
                f"{argument}: {getattr(problem, 'strerror', None) or readable(problem)}.", remedy
            ) from None
        if len(held) == len(self.arrays) == 1:
            held = dict(zip(self.arrays, held.values(), strict=True))
        if missing := [name for name in self.arrays if name not in held]:
            raise WrongInputError(f"{argument}: it has no array {missing[0]!r}; it has {', '.join(held)}.", remedy)
        inputs = {name: self._shaped(argument, name, held[name], remedy) for name in self.arrays}
        if len({len(value) for value in inputs.values()}) > 1:
            raise WrongInputError(f"{argument}: its arrays hold different numbers of samples.", remedy)
        return inputs

    def _shaped(self, argument: str, name: str, values: Any, remedy: str) -> Any:
        wanted = self.arrays[name]["shape"]
        if values.dtype.kind not in "fiub":
            raise WrongInputError(f"{argument}: {name} is of {values.dtype}, no numbers.", remedy)
        if len(values.shape) == len(wanted):
            values = values[None]
        if len(values.shape) != len(wanted) + 1 or any(
            size not in {have, None} for size, have in zip(wanted, values.shape[1:], strict=True)
        ):
            raise WrongInputError(f"{argument}: a sample of {name} has the shape {values.shape[1:]}.", remedy)
        return values.astype(self.arrays[name]["dtype"])

    def _notes(self, some: Inputs, place: int) -> list[str]:
        found = []
        for name, one in self.arrays.items():
            values = some[name][place]
            if not one.get("range") or not values.size:  # whole numbers have none: they are tokens
                continue
            (low, high), least, most = one["range"], values.min(), values.max()
            if least < low or most > high:
                found.append(f"{name}: {least:.7g} to {most:.7g} is beyond the training data ({low:.7g} to {high:.7g})")
        return found


def _of_json(text: str) -> Inputs:
    """Return the arrays of a JSON list, or of an object of such by name. Raises ValueError."""
    found = json.loads(text)
    return {name: np.asarray(value) for name, value in (found if isinstance(found, dict) else {"": found}).items()}
