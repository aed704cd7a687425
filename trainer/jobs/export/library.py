"""Folder of a library model for from_pretrained, compared with the trained model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, TrainedTokenizer
from trainwright.trainer.engine.session import Session
from trainwright.trainer.frameworks.framework import framework_in
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.models.adapters.saved import merged
from trainwright.trainer.models.adapters.task_types import is_of_library
from trainwright.trainer.models.weight_types import is_quantised
from trainwright.trainer.objectives.supervised import plain_output

FOLDER = "transformers"
TOLERANCE = 1e-4
"""Largest difference of outputs, times the largest output where that is above 1: merging adapters rounds."""


def write_library_folder(session: Session, rows: dict[str, Tensor], folder: Path) -> dict[str, Any] | None:
    """Write config.json, model.safetensors and the tokenizer, and compare their outputs with the model's.

    With adapters that is the merged model, which export_adapter compares with base plus adapter.

    Args:
        rows: real inputs, by name where the model is called so.

    Returns:
        The evidence, or None for a model that is not of the library, or whose adapter has quantised weights beside it.

    Raises:
        IntegrityError: the folder's model gives other outputs.
    """
    model: Any = session.model
    has_adapter = is_wrapped_by_peft(model)
    if not (is_of_library(model) or has_adapter) or is_quantised(model):
        return None
    plain = copy.deepcopy(model).merge_and_unload() if has_adapter else model
    if session.config.adapter is not None:
        plain = merged(model)
    plain.save_pretrained(str(folder))
    _write_tokenizer(session, folder)
    again = type(plain).from_pretrained(str(folder), local_files_only=True, use_safetensors=True).eval()
    inputs = rows
    proven = model if session.config.adapter is None else plain
    with torch.no_grad():
        outputs = [plain_output(each(**inputs) if "input_ids" in inputs else each(*inputs.values()))
                   for each in (proven.eval(), again)]  # fmt: skip
    found = difference(outputs[1], outputs[0], "real rows")
    if not found.ratio <= TOLERANCE:
        raise IntegrityError(
            f"The model read back from {folder.name}/ differs by {found}, more than {TOLERANCE:g} of it.",
            remedy="Leave the folder alone and use model.safetensors, which holds the trained weights.",
        )
    return {"max_abs_difference": found.difference, "largest_output": found.scale, "tolerance": TOLERANCE,
            "class": type(plain).__name__, "rows_compared": len(outputs[0])}  # fmt: skip


def is_wrapped_by_peft(model: nn.Module) -> bool:
    """Return whether a model is peft's own around another: one that a user's trainer brought along."""
    return any(kind.__module__ == "peft.peft_model" and kind.__name__ == "PeftModel" for kind in type(model).__mro__)


def _write_tokenizer(session: Session, folder: Path) -> None:
    """Put the tokenizer of the data, or of the user's trainer, beside the model, where it is one of the library's."""
    framework = framework_in(session.work)
    if framework is not None and callable(getattr(framework.processing, "save_pretrained", None)):
        framework.processing.save_pretrained(str(folder))
    text = session.work.splits.text
    if text is not None and text.tokenizer["name"] == "bpe":
        merges = (merge.partition(" ")[::2] for merge in text.tokenizer["merges"])
        TrainedTokenizer(list(merges)).inner.save_pretrained(str(folder))
    if text is None or text.tokenizer["name"] != "library" or session.config.data is None:
        return
    place = confine_folder(session.config.data.args["tokenizer"], session.context.code_root, key="data.args.tokenizer")
    LibraryTokenizer(place).inner.save_pretrained(str(folder))
