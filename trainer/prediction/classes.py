"""Answers that are a class: its name, its probability, and the likeliest others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.prediction.frame import (
    MAX_SCORES,
    Array,
    Batch,
    Option,
    Program,
    chosen,
    finite,
    probabilities,
)


class ClassAnswers:
    """The likeliest class of each input."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.classes, self.target = schema["answer"]["classes"], schema["answer"]["target"]
        self.are_shares = schema["answer"].get("are_probabilities", False)

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sample's `{"label", "probability", "scores"}`, and the outputs."""
        outputs = program(batch[1])
        scores = finite(outputs, batch[0])
        shares = scores if self.are_shares else probabilities(scores, len(self.classes))
        return [chosen(row, self.classes) for row in shares.tolist()], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return label and probability of each class; of many classes that of the label."""
        shares = {f"probability_of_{name}": answer["scores"].get(name) for name in self.classes}
        if len(shares) > MAX_SCORES:
            shares = {"probability": answer["probability"]}
        return [{f"predicted_{self.target}": answer["label"], **shares}]
