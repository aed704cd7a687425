"""ONNX with a free batch dimension, checked against the model on real rows at several batch sizes."""

from __future__ import annotations

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.errors import ConfigurationError, IntegrityError
from trainwright.trainer.export.serving import WITHOUT_ONNX, Serving

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What torch puts into its messages for terminals."""


def write_onnx(serving: Serving, rows: dict[str, Tensor], path: Path, tolerance: float) -> dict[str, Any]:
    """Write the file and return the `onnx` evidence.

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
    if not evidence["passed"]:
        raise IntegrityError(
            f"The ONNX file differs from the model by {evidence['max_abs_difference']:g}, more than {tolerance:g} of "
            f"outputs up to {evidence['largest_output']:g}.",
            remedy="Leave onnx out, or raise deployment.onnx_tolerance if that is acceptable.",
            details={**evidence, **WITHOUT_ONNX},
        )
    return evidence


def _compare(serving: Serving, rows: dict[str, Tensor], path: Path, tolerance: float) -> dict[str, Any]:
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
    return {
        "opset": model.opset_import[0].version,
        "inputs": {item.name: item.type for item in session.get_inputs()},
        "shapes": {item.name: list(item.shape) for item in (*session.get_inputs(), *session.get_outputs())},
        "batch_sizes": sizes,
        "rows_compared": compared,
        "max_abs_difference": largest,
        "tolerance": tolerance,
        "largest_output": scale,
        "passed": largest <= tolerance * max(1.0, scale),
    }
