"""Answers that are numbers, in the units of the targets: their scaling is undone inside the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, finite


class NumberAnswers:
    """A number, or one for each of several targets."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.target, self.names = schema["answer"]["target"], schema["answer"].get("names")

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sample's `{"value"}`, or `{"values"}` by name, or a list of outputs without names."""
        outputs = program(batch[1])
        return [self._worded(one) for one in finite(outputs, batch[0])], outputs

    def _worded(self, numbers: Array) -> dict[str, Any]:
        if numbers.size == 1:
            return {"value": numbers.item()}
        return {"values": dict(zip(self.names, numbers.tolist(), strict=True)) if self.names else numbers.tolist()}

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the numbers by target."""
        values = answer.get("values", {self.target: answer.get("value")})
        if not isinstance(values, dict):
            values = {f"{self.target}_{place}": one for place, one in enumerate(values)}
        return [{f"predicted_{name}": value for name, value in values.items()}]
