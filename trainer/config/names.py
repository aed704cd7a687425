"""The bare names that a configuration may give: built-in models, data, losses and metrics. Everything else is an entry.

The parts themselves need torch; this list does not, and a test holds it to them.
"""

from __future__ import annotations

import difflib
from typing import Any

BUILT_IN: dict[str, tuple[str, ...]] = {
    "model.use": ("mlp", "cnn", "resnet", "gpt", "transformers", "timm"),
    "data.use": (
        *("digits", "iris", "wine", "breast_cancer", "diabetes"),
        *("csv", "jsonl", "parquet", "arrow", "npz", "text", "images"),
    ),
    "loss": (
        "cross_entropy",
        "focal",
        "class_balanced",
        "next_token",
        "bce_with_logits",
        "mse",
        "mae",
        "huber",
        "dice",
        "dice_cross_entropy",
    ),
    "curriculum.use": ("centroid", "length"),
    "metrics": ("accuracy", "balanced_accuracy", "f1", "auc", "mean_iou", "mae", "r2", "perplexity", "bits_per_byte"),
}


def require_known(key: str, given: Any, place: str | None = None) -> None:
    """Check a name, or a section with the name as `use`, against the built-in names of the key.

    `place` is where it stands, if not under the key itself.

    Raises:
        ValueError: a bare name that is not built in; says which is near.
    """
    name = given if isinstance(given, str) else given.use
    known = BUILT_IN[key]
    if ":" in name or name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"built in: {', '.join(known)}."
    raise ValueError(
        f'`{place or key}` = {name[:60]!r} is no built-in name; {hint} Your own is written "module:callable" or '
        '"path/file.py:callable"'
    )
