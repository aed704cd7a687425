"""Rows that predict.py reads: texts with their fields; or a text or file in base64, by the released code."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from drift import Drift
from predictor import content_of, shipped
from pydantic import AfterValidator, BaseModel, ConfigDict, create_model


class Prepared:
    """What predict.py made of a row; a file lies in a folder of its own for as long as this is held.

    Args:
        rows: of predict.py, with its WrongInputError `refused`.
        argument: a text; or the path of a file, alone in its folder.
        is_file: which of them.
    """

    def __init__(self, rows: Any, refused: type[Exception], argument: str, *, is_file: bool) -> None:
        place = str(Path(argument).parent) if is_file else None
        done = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True) if place else None
        try:
            batches = list(rows.batches([argument]))
        except refused as problem:
            text = str(problem).removeprefix(f"{argument[:60]}: ")
            if done:
                done()
            raise ValueError(text.replace(f"{place}/", "") if place else text) from None
        if len(batches) != 1:
            raise ValueError(f"it is {len(batches)} rows; give each by itself")
        self.batch = batches[0]


class Rows:
    """What one row is, and how it becomes the program's inputs.

    Args:
        signature: of the model.
        folder: with predict.py, schema.json and code/.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:
        given, ours = signature["inputs"], shipped(folder)
        self.shapes, self.plain, self.reads_code = given["shapes"], given["plain"], given["reader"] == "OwnRows"
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
        rows, refused = ours[given["reader"]](schema, folder), ours["WrongInputError"]

        def prepare(value: Any) -> Prepared:
            if not given["is_file"]:
                return Prepared(rows, refused, self._argument(value), is_file=False)
            content = content_of(value)
            path = Path(tempfile.mkdtemp(prefix="row-")) / given["example"]
            path.write_bytes(content)
            return Prepared(rows, refused, str(path), is_file=True)

        kind: Any = str if given["is_file"] else str | dict[str, Any] | list[Any]
        field: Any = (Annotated[kind, AfterValidator(prepare)], ...)
        name = "file" if given["is_file"] else "input"
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), **{name: field})
        self.made_up = [] if self.reads_code else self.inputs([self.Row(**{name: given["example"]})])

    def _argument(self, value: Any) -> str:
        """Return what predict.py is given; of its own readers JSON alone, since a text may be the name of a file."""
        if self.reads_code and isinstance(value, str):
            return value
        if isinstance(value, str):
            value = _parsed(value, self.plain)
        return json.dumps(value)

    def inputs(self, rows: Sequence[Any]) -> list[Any]:
        """Return the batch of each row, of one sample: what one makes may have another size than the next."""
        return [next(iter(row.__dict__.values())).batch for row in rows]

    def example(self) -> list[Any]:
        """Return an input on which the program must run before the service is ready; of code numbers, of no row."""
        return self.made_up or [([], {name: np.zeros((1, *shape)) for name, shape in self.shapes.items()})]

    def notes(self, rows: Sequence[Any], inputs: Sequence[Any]) -> list[list[str]]:  # noqa: ARG002 - as of tables
        """Return what predict.py notes of each."""
        return [sample.notes for samples, _ in inputs for sample in samples]

    def count(self, rows: Sequence[Any], inputs: Sequence[Any], drift: Drift) -> None:
        """Count rows alone: nothing is known of raw inputs in training."""


def _parsed(text: str, plain: str | None) -> Any:
    """Return the JSON object or list that a text is; else the row that it is. Raises ValueError where it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, (dict, list)):
        return found
    if plain is None:
        raise ValueError("it is no object of JSON")
    return {plain: text}
