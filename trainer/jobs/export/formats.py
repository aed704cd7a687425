"""Formats of an export: ONNX with a free batch dimension, and a folder for from_pretrained."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.serving import WITHOUT_ONNX, Serving
from trainwright.trainer.objectives.supervised import plain_output
from trainwright.trainer.run.results import Onnx

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Colour codes that torch puts into its messages."""


def write_onnx(serving: Serving, rows: dict[str, Tensor], path: Path, tolerance: float) -> Onnx:
    """Write the file and compare it with the model.

    Args:
        rows: real raw inputs by name, (rows, ...), at least two rows.
        tolerance: largest difference of outputs that passes, times the largest output where that is above 1.

    Raises:
        ConfigurationError: the model cannot be exported.
        IntegrityError: the file gives other outputs than the model.
    """
    values = tuple(rows.values())
    batch = torch.export.Dim("batch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            program: Any = torch.onnx.export(
                serving,
                values,
                dynamo=True,
                dynamic_shapes=(tuple({0: batch} for _ in values),),
                input_names=list(rows),
                output_names=["output"],
                verbose=False,
            )
            program.save(str(path), external_data=False)
    except Exception as error:
        raise ConfigurationError(
            f"The model cannot be written as ONNX: {type(error).__name__}: {COLOUR.sub('', str(error))[:300]}",
            remedy='Leave "onnx" out of deployment.formats; model.safetensors holds the same weights.',
            details=WITHOUT_ONNX,
        ) from error
    evidence = _compare(serving, rows, path, tolerance)
    if not evidence.passed:
        raise IntegrityError(
            f"The ONNX file differs from the model by {evidence.max_abs_difference:g}, more than {tolerance:g} of "
            f"outputs up to {evidence.largest_output:g}.",
            remedy="Leave onnx out, or raise deployment.onnx_tolerance if that is acceptable.",
            details={**evidence.as_dict(), **WITHOUT_ONNX},
        )
    return evidence


def _compare(serving: Serving, rows: dict[str, Tensor], path: Path, tolerance: float) -> Onnx:
    import onnx
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    count = len(next(iter(rows.values())))
    sizes = sorted({1, min(7, count), count})
    largest, scale, compared = 0.0, 0.0, 0
    for size in sizes:
        feed = {name: value[:size].numpy() for name, value in rows.items()}
        (given,) = session.run(None, feed)
        with torch.no_grad():
            wanted = serving(*(value[:size] for value in rows.values()))
        difference = (torch.from_numpy(given).double() - wanted.double()).abs().max().item()
        largest, compared = max(largest, difference), compared + size
        scale = max(scale, wanted.double().abs().max().item())
    model = onnx.load(str(path))
    return Onnx(
        opset=model.opset_import[0].version,
        inputs={item.name: item.type for item in session.get_inputs()},
        shapes={item.name: list(item.shape) for item in (*session.get_inputs(), *session.get_outputs())},
        batch_sizes=sizes,
        rows_compared=compared,
        max_abs_difference=largest,
        tolerance=tolerance,
        largest_output=scale,
        passed=largest <= tolerance * max(1.0, scale),
    )


TOLERANCE = 1e-4
"""Largest absolute difference of outputs between the model and the folder's: merging adapters rounds."""


def write_library_folder(session: Session, rows: dict[str, Tensor], folder: Path) -> dict[str, Any] | None:
    """Write config.json, model.safetensors and the tokenizer, and compare their outputs with the model's.

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
        from trainwright.trainer.models.adapter import merged

        plain = merged(model)
    plain.save_pretrained(str(folder))
    _write_tokenizer(session, folder)
    again = type(model).from_pretrained(str(folder), local_files_only=True, use_safetensors=True).eval()
    inputs = {name: value[:8] for name, value in rows.items()}
    with torch.no_grad():
        outputs = [plain_output(each(**inputs) if "input_ids" in inputs else each(*inputs.values()))
                   for each in (model.eval(), again)]  # fmt: skip
    difference = (outputs[0].double() - outputs[1].double()).abs().max().item()
    if not difference <= TOLERANCE:
        raise IntegrityError(
            f"The model read back from {folder.name}/ differs by {difference:g}, more than {TOLERANCE:g}.",
            remedy="Leave the folder alone and use model.safetensors, which holds the trained weights.",
        )
    return {"max_abs_difference": difference, "tolerance": TOLERANCE, "class": type(model).__name__}


def _write_tokenizer(session: Session, folder: Path) -> None:
    """Put the tokenizer of the data beside the model, where it is one of the library's."""
    text = session.work.splits.text
    if text is None or text.tokenizer["name"] != "library" or session.config.data is None:
        return
    from trainwright.trainer.data.text.tokenizers import LibraryTokenizer

    place = confine_folder(session.config.data.args["tokenizer"], session.context.code_root, key="data.args.tokenizer")
    LibraryTokenizer(place).inner.save_pretrained(str(folder))
