"""Answers as predict.py words them, by the model's own `present` where it has one."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from predictor import NotFiniteError, shipped


class Answers:
    """Words the program's outputs by the class of predict.py that does it there.

    Args:
        program: gives outputs for inputs.
        signature: of the model.
        folder: with predict.py, schema.json and code/.
    """

    runs_per_row = 1

    def __init__(self, program: Any, signature: dict[str, Any], folder: Path) -> None:
        self.program, self.shipped = program, shipped(folder)
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
        kind = self.shipped[signature["answers"]]
        options = {name: default for name, _, default, _ in kind.options}
        if "out" in options:
            options["out"] = Path(tempfile.mkdtemp(prefix="answers-"))
        self.answers, self.writes = kind(schema, folder, options), "out" in options

    def __call__(self, inputs: Any) -> list[dict[str, Any]]:
        """Return for each row the answer of `predict.py --json`; of a mask its PNG in base64. Raises NotFiniteError.

        Args:
            inputs: batches, as predict.py has them; or arrays (rows, ...) by name, whose rows have a number alone.
        """
        batches = inputs if isinstance(inputs, list) else [(self._numbered(inputs), inputs)]
        return [one for place, batch in enumerate(batches) for one in self._worded(batch, place, len(batches))]

    def _numbered(self, inputs: dict[str, Any]) -> list[Any]:
        return [self.shipped["Sample"]({"row": n + 1}) for n in range(len(next(iter(inputs.values()))))]

    def _worded(self, batch: Any, place: int, count: int) -> list[dict[str, Any]]:
        if not batch[0]:
            self.program(batch[1])  # the example: of no row, so there is nothing to present
            return []
        row = f"rows[{place}]: " if count > 1 else ""
        try:
            answers, _ = self.answers(self.program, batch)
        except self.shipped["NoAnswerError"] as problem:
            raise NotFiniteError(f"{row}{problem}") from None
        except self.shipped["WrongInputError"]:
            raise NotFiniteError(f"{row}the model gave no finite number for this row") from None
        if self.writes:
            answers = [{**one, "mask": _taken(Path(one["mask"]))} for one in answers]
        try:
            found: list[dict[str, Any]] = json.loads(json.dumps(answers, allow_nan=False, default=str))
        except ValueError:
            raise NotFiniteError("the answer holds no finite number") from None
        return found


def _taken(path: Path) -> str:
    """Return the content of a file in base64; it is there no longer."""
    content = path.read_bytes()
    path.unlink()
    return base64.b64encode(content).decode()
