"""Folder of a library model for from_pretrained, compared with the trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.supervised import plain_output

TOLERANCE = 1e-4
"""Largest absolute difference of outputs between the model and the folder's: merging adapters rounds."""


def write_library_folder(session: Session, rows: dict[str, Tensor], folder: Path) -> dict[str, Any] | None:
    """Write config.json, model.safetensors and the tokenizer, and compare their outputs with the model's.

    With adapters that is the merged model, which export_adapter compares with base plus adapter.

    Args:
        rows: real inputs, by name where the model is called so.

    Returns:
        The evidence, or None for a model that is not of the library.

    Raises:
        IntegrityError: the folder's model gives other outputs.
    """
    model: Any = session.model
    if not any(kind.__module__ == "transformers.modeling_utils" for kind in type(model).__mro__):
        return None
    plain = model
    if session.config.adapter is not None:
        from trainwright.trainer.models.adapters.merging import merged

        plain = merged(model)
    plain.save_pretrained(str(folder))
    _write_tokenizer(session, folder)
    again = type(model).from_pretrained(str(folder), local_files_only=True, use_safetensors=True).eval()
    inputs = rows
    with torch.no_grad():
        outputs = [plain_output(each(**inputs) if "input_ids" in inputs else each(*inputs.values()))
                   for each in (plain.eval(), again)]  # fmt: skip
    difference = (outputs[0].double() - outputs[1].double()).abs().max().item()
    if not difference <= TOLERANCE:
        raise IntegrityError(
            f"The model read back from {folder.name}/ differs by {difference:g}, more than {TOLERANCE:g}.",
            remedy="Leave the folder alone and use model.safetensors, which holds the trained weights.",
        )
    return {"max_abs_difference": difference, "tolerance": TOLERANCE, "class": type(model).__name__,
            "rows_compared": len(outputs[0])}  # fmt: skip


def _write_tokenizer(session: Session, folder: Path) -> None:
    """Put the tokenizer of the data beside the model, where it is one of the library's."""
    text = session.work.splits.text
    if text is not None and text.tokenizer["name"] == "bpe":
        from trainwright.trainer.data.text.trained import TrainedTokenizer

        merges = (merge.partition(" ")[::2] for merge in text.tokenizer["merges"])
        TrainedTokenizer(list(merges)).inner.save_pretrained(str(folder))
    if text is None or text.tokenizer["name"] != "library" or session.config.data is None:
        return
    from trainwright.trainer.data.text.tokenizers import LibraryTokenizer

    place = confine_folder(session.config.data.args["tokenizer"], session.context.code_root, key="data.args.tokenizer")
    LibraryTokenizer(place).inner.save_pretrained(str(folder))
