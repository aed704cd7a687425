"""Variants of an ONNX program: half precision, or weights in 8 bits that are multiplied as such.

Dynamic quantisation needs no calibration rows: scales of activations are found in each call (Jacob et al. 2018,
arXiv:1712.05877). The clean room says what a variant costs; nothing is chosen by it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from trainwright.trainer.base.canonical import sha256_of_file
from trainwright.trainer.jobs.export.exporters import data_of, load_onnx, quiet
from trainwright.trainer.jobs.export.inputs import Rows
from trainwright.trainer.jobs.export.parity import part
from trainwright.trainer.run.results import Variant

TRIED_ROWS = 2


def write_variants(names: Sequence[str], program: Path, artifacts: Path, rows: Rows) -> list[Variant]:
    """Write the variants beside a program; one that cannot be made, or does not run, is named with the reason.

    Args:
        program: model.onnx.
        artifacts: below which paths are recorded.
        rows: real ones, with which each variant is tried.
    """
    return [_written(name, program, artifacts, rows) for name in dict.fromkeys(names)]


def _written(name: str, program: Path, artifacts: Path, rows: Rows) -> Variant:
    path = program.with_name(f"{program.stem}_{name}.onnx")
    try:
        if data_of(program).is_file():
            raise ValueError("the program's weights are beside it, above 2 GB, where no variant is made")
        with quiet():
            {"fp16": _halved, "int8": _quantised}[name](program, path)
        load_onnx(path)(part(next(rows.batches()), 0, TRIED_ROWS))
    except Exception as error:  # noqa: BLE001 - whatever a converter or the runtime raises: the program is there
        path.unlink(missing_ok=True)
        return Variant(name=name, problem=" ".join(f"{type(error).__name__}: {error}".split())[:300])
    size = path.stat().st_size
    place = path.relative_to(artifacts).as_posix()
    digest, share = sha256_of_file(path), size / program.stat().st_size
    return Variant(name=name, path=place, digest=digest, bytes=size, share=round(share, 4))


def _halved(program: Path, path: Path) -> None:
    """Write weights and computation in float16, inputs and outputs as they were."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    largest = torch.finfo(torch.float16).max  # the converter would cut off numbers above 1e4
    halved = convert_float_to_float16(onnx.load(str(program)), keep_io_types=True, max_finite_val=largest)
    onnx.save(halved, str(path))


def _quantised(program: Path, path: Path) -> None:
    """Write weights in 8 bits."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model: Any = onnx.load(str(program))
    del model.graph.value_info[:]  # the dynamo exporter leaves shapes there that inference finds otherwise
    root, level = logging.getLogger(), logging.getLogger().level
    root.setLevel(logging.ERROR)  # it recommends to prepare the model, by the root's logger
    try:
        quantize_dynamic(model, str(path), weight_type=QuantType.QInt8)
    finally:
        root.setLevel(level)
