"""Reference of the user's, apart: `python -P -m trainwright.trainer.jobs.reference`, the order on its input.

The process has the inputs that planning fixed, the train rows, and copies of the function's file and of those that it
imports: no model, no run, no held-out targets but the kind they are of. A function that takes targets beside the inputs
is fitted: it is called on the train rows, and gives the one that is called on the others. The process writes what that
gives for each split, and answers with the records of these arrays.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.clean_room.rows import Array, Column, Split, open_split, read_array
from trainwright.trainer.data.plain_values import input_name
from trainwright.trainer.jobs.apart import function_of, main

Numbers = Callable[[Array], Array]
"""How numbers are handed over."""
SURE = 30.0
"""Logit of the class that is named, where a function names classes."""


def _answered(order: Mapping[str, Any]) -> dict[str, Any]:
    function, is_fitted = function_of(order, {}), False
    numbers = _in_decimals if order["is_table"] else np.array
    splits, of_classes = dict[str, Any](), False
    for name in order["splits"]:
        split = open_split(Path(order["rows"]["folder"]), order["rows"]["record"], name)
        if not splits and (is_fitted := _takes_targets(function, split)):
            function = _fitted(function, split, order["train"], numbers)
        outputs, of_classes = _outputs(_called(function, split, numbers), split)
        path = Path(order["into"]) / f"{name}.npy"
        np.save(path, outputs)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        kept = {"path": path.name, "digest": digest, "dtype": str(outputs.dtype), "shape": list(outputs.shape)}
        splits[name] = {"outputs": kept}
    return {"splits": splits, "is_of_classes": of_classes, "is_fitted": is_fitted}


def _takes_targets(function: Callable[..., Any], split: Split) -> bool:
    """Return whether a function needs one argument more than the split has inputs."""
    needed = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in needed) == len(split.inputs) + 1


def _fitted(
    function: Callable[..., Any], split: Split, train: Mapping[str, Any] | None, numbers: Numbers
) -> Callable[..., Any]:
    """Return what the function gives for the train rows and their targets. Raises ValueError without them."""
    if train is None:
        raise ValueError("it takes targets, and train rows are kept of arrays and tables up to 128 MiB alone")
    folder = Path(train["folder"])
    inputs = [numbers(read_array(folder, one)) for one in train["inputs"]]
    targets = numbers(read_array(folder, train["targets"]))
    found = function(*inputs, targets.reshape(-1) if targets.size == len(targets) else targets)
    if not callable(found):
        raise TypeError(
            f"it takes targets, and gave {type(found).__name__} in place of a function of {[*split.inputs]}"
        )
    return found  # type: ignore[no-any-return]


def _called(function: Callable[..., Any], split: Split, numbers: Numbers) -> Any:
    """Call the function as the model is called: inputs by position, or by their names where these are the data's."""
    given = {name: _values(column, numbers) for name, column in split.inputs.items()}
    is_by_place = [*given] == [input_name(number, len(given)) for number in range(len(given))]
    return function(*given.values()) if is_by_place else function(**given)


def _in_decimals(values: Array) -> Array:
    """Return numbers of a file, (rows, ...), as doubles of the decimals that they were read from.

    A tree that was fitted on the file splits at 0.3, and 0.3 in 32 bits lies above it.
    """
    return values.astype(str).astype(np.float64) if values.dtype == np.float32 else values


def _values(column: Column, numbers: Numbers) -> Array | list[Array]:
    """Return all rows as one array, (rows, ...), or a list of them where their shapes differ."""
    if column.shapes is None:
        return numbers(column.ordered)
    return [np.array(column.rows(row, row + 1)[0]) for row in range(len(column))]


def _outputs(found: Any, split: Split) -> tuple[Array, bool]:
    """Return outputs, (rows, ...), and whether they name classes alone. Raises ValueError for other rows or values."""
    outputs = np.asarray(found.detach() if hasattr(found, "detach") else found)
    if outputs.ndim == 0 or len(outputs) != split.rows or outputs.dtype.kind not in "fiub":
        told = f"{outputs.dtype} {outputs.shape}"
        raise ValueError(f"it gave {told} for {split.rows} rows; one prediction, or the model's outputs, a row")
    targets = None if split.target is None else split.target.values
    if targets is None or outputs.dtype.kind == "f" or not _are_classes(targets):
        return outputs.astype(np.float32), False
    if targets.dtype.kind == "f" or targets.size != split.rows:  # of labels, one logit each
        return np.where(outputs, SURE, -SURE).astype(np.float32), True
    classes = outputs.reshape(split.rows).astype(np.int64)
    count = max(int(classes.max()), int(targets.max())) + 1
    return SURE * np.eye(count, dtype=np.float32)[classes], True


def _are_classes(targets: Array) -> bool:
    return targets.dtype.kind in "iub" or bool(np.isin(targets, (0.0, 1.0)).all())


if __name__ == "__main__":
    sys.exit(main(_answered))
