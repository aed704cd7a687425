"""Lines of the model card that open a program by PyTorch and call it, and what its outputs are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOADED = {
    "model.pt2": 'torch.export.load("model.pt2").module()',
    "model.torchscript.pt": 'torch.jit.load("model.torchscript.pt")',
}
"""How PyTorch opens a program."""
ANSWER = {"logits": "outputs.softmax(1)", "log_odds": "outputs.sigmoid()"}
"""What makes probabilities of outputs, where they are none."""


def opened(name: str, resolved: Mapping[str, Any]) -> str:
    """Return Python that opens a program of the folder and calls it with a made-up row, as it stands.

    Args:
        name: of its file.
        resolved: content of resolved.json: shapes and types of the inputs, and what the outputs are.
    """
    outputs = resolved.get("outputs", {})
    shapes = resolved["input_shapes"]
    given = map(_made_up, shapes, resolved.get("input_types") or ["float32"] * len(shapes))
    first = "outputs, *_" if outputs.get("several") else "outputs"
    return (
        f"import torch\n\nmodel = {LOADED[name]}\ninputs = [{', '.join(given)}]\n"
        f"with torch.no_grad():\n    {first} = model(*inputs)\nprint({ANSWER.get(outputs.get('are'), 'outputs')})"
    )


def _made_up(shape: list[int], of: str) -> str:
    """Return code of a row of zeros; of whole numbers of ones, which no mask of a text may be without."""
    sizes = ", ".join(map(str, [1, *shape]))
    if of.startswith("float"):
        return f"torch.zeros({sizes}{'' if of == 'float32' else f', dtype=torch.{of}'})"
    return f"torch.ones({sizes}, dtype=torch.{of})"
