"""An index outside a vocabulary or a number of classes: the value, the size, and the setting that makes them fit.

Libraries name at most one of them. Both stand in the frames that the exception passed through.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.trainer.errors import ConfigurationError, DataError, TrainwrightError

FUNCTIONAL = ("torch", "nn", "functional.py")
LOOKED_UP = ("embedding", "embedding_bag")
COMPARED = ("cross_entropy", "nll_loss")


def outside_range(error: BaseException) -> TrainwrightError | None:
    """Return the explained error for an index that an embedding or a loss of classes has no place for; else None."""
    for name, held in _frames(error):
        weight, indices = held.get("weight"), held.get("input")
        if name in LOOKED_UP and isinstance(error, IndexError | RuntimeError) and _is_index(error):
            return _outside_vocabulary(indices, int(weight.shape[0])) if weight is not None else None
        if name in COMPARED and "out of bounds" in str(error):
            return _outside_classes(held.get("target"), indices)
    return None


def _is_index(error: BaseException) -> bool:
    return any(words in str(error) for words in ("out of range", "out of bounds", "not in the valid range"))


def _frames(error: BaseException) -> list[tuple[str, dict[str, Any]]]:
    """Return function and local variables of torch's own frames that the error passed through, outermost first."""
    found, step = [], error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if Path(code.co_filename).parts[-3:] == FUNCTIONAL:
            found.append((code.co_name, step.tb_frame.f_locals))
        step = step.tb_next
    return found


def _outside_vocabulary(indices: Any, size: int) -> TrainwrightError | None:
    bad = indices[(indices < 0) | (indices >= size)]
    if not len(bad):
        return None
    value, needed = int(bad.flatten()[0]), int(indices.max()) + 1
    return ConfigurationError(
        f"Index {value} is outside an embedding of {size} rows (0 to {size - 1}).",
        remedy=f"Build the embedding with at least {needed} rows: correct model.args, or let the model take "
        "`vocab_size`, to which the size of a text source's vocabulary is passed.",
        document="configs/your_code.md",
        details={"value": value, "size": size, "needed": needed},
    )


def _outside_classes(target: Any, output: Any) -> TrainwrightError | None:
    classes = int(output.shape[1 if output.dim() > 1 else 0])
    bad = target[((target < 0) | (target >= classes)) & (target != -100)]
    if not len(bad):
        return None
    value, needed = int(bad.flatten()[0]), int(target.max()) + 1
    return DataError(
        f"Target {value} is outside the output's {classes} classes (0 to {classes - 1}).",
        remedy=f"Give the model's last layer {needed} outputs (model.args), or number the labels from 0; targets "
        "of -100 do not count.",
        document="configs/losses.md",
        details={"value": value, "size": classes, "needed": needed},
    )
