"""The task of a model of the Transformers library, as peft calls it."""

from __future__ import annotations

from torch import nn

KINDS = {
    "SEQ_CLS": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "CAUSAL_LM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "TOKEN_CLS": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "QUESTION_ANS": "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "SEQ_2_SEQ_LM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
}
LANGUAGE = frozenset({"CAUSAL_LM", "SEQ_2_SEQ_LM"})
"""Tasks whose output layer is a token's, and came with the model."""


def is_of_library(model: nn.Module) -> bool:
    """Return whether the model is one of the Transformers library."""
    return any(kind.__module__ == "transformers.modeling_utils" for kind in type(model).__mro__)


def task_type(model: nn.Module) -> str | None:
    """Return peft's name of the model's task; None where peft has none, or the model is not of the library."""
    if not is_of_library(model):
        return None
    from transformers.models.auto import modeling_auto

    for task, names in KINDS.items():
        if type(model).__name__ in getattr(modeling_auto, names).values():
            return task
    return None
