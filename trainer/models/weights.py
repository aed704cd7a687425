"""Weights of the Transformers library's models: their folder, or the way to a small model where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine_folder

KEY = "model.args.path"
SMALL: dict[str, dict[str, Any]] = {
    "causal_lm": {"model_type": "gpt2", "n_embd": 128, "n_layer": 4, "n_head": 4},
    "seq2seq_lm": {"model_type": "t5", "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 3, "num_heads": 4},
    "image_classification": {"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
                             "intermediate_size": 128, "patch_size": 4},
}  # fmt: skip
"""Configurations of models that a CPU trains from random weights, by the kind of model."""
SMALL_ENCODER: dict[str, Any] = {
    "model_type": "bert", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 256,
}  # fmt: skip
"""Of all other kinds."""


def small_model(kind: str = "") -> str:
    """Return a model of random weights as a plan takes it, in JSON."""
    return json.dumps({"use": "transformers", "args": {"config": SMALL.get(kind, SMALL_ENCODER)}})


def weights_folder(path: str, code_root: Path, kind: str = "") -> Path:
    """Return the existing folder of a model, resolved.

    Args:
        path: relative to the code root.
        kind: of model, where it is known.

    Raises:
        ConfigurationError: there is none, with how weights are fetched and what trains without; or it is outside.
    """
    try:
        return confine_folder(path, code_root, key=KEY)
    except ConfigurationError as error:
        if (code_root / path).exists():
            raise
        raise ConfigurationError(
            error.message,
            remedy=f"Fetch the weights there (hf download ID --local-dir {path}), or correct the path (from "
            "code_root). Without a network plan a small model of random weights: plan_training(…, "
            f"model={small_model(kind)}).",
            details=error.details,
        ) from error
