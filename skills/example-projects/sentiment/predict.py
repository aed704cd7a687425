#!/usr/bin/env python3
"""Moods of texts, by the released model alone: needs numpy, onnxruntime and tokenizers.

    python predict.py "A fine film." "I would not buy it again."
    python predict.py --model final_model "…"

Tokens are made by the model's own predict.py, the code of training, from its schema.json and tokenizer.json.
A line of JSON for each text.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np


def inputs_of(model: Path, texts: list[str]) -> dict[str, Any]:
    """Return the program's inputs by name, each (texts, tokens of the longest), as its own predict.py makes them."""
    transform = runpy.run_path(str(model / "predict.py"))  # and leaves no file beside it
    schema = json.loads((model / "schema.json").read_text(encoding="utf-8"))["text"]
    made: dict[str, Any] = transform["encode_texts"](texts, transform["encoder"](schema, model), schema["padding"])
    return made


def moods(model: Path, texts: list[str]) -> list[dict[str, Any]]:
    """Return of each text the mood and the probability of each."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model / "model.onnx"), providers=["CPUExecutionProvider"])
    [scores] = session.run(None, inputs_of(model, texts))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    names = json.loads((model / "resolved.json").read_text(encoding="utf-8"))["class_names"]
    return [
        {
            "text": text,
            "mood": names[int(row.argmax())],
            "probability": dict(zip(names, row.round(4).tolist(), strict=True)),
        }
        for text, row in zip(texts, shares, strict=True)
    ]


def main() -> None:
    """Print the moods."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--model", type=Path, default=Path(".trainwright/projects/sentiment/final_model"))
    asked = parser.parse_args()
    sys.stdout.write("".join(json.dumps(found) + "\n" for found in moods(asked.model, asked.texts)))


if __name__ == "__main__":
    main()
