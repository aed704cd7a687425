"""Exporters of a serving model: TorchScript's and dynamo's to ONNX, torch.export's program, a trace in TorchScript.

Each file is called back.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.parity import Call
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.run.artifacts import Parity
from trainwright.trainer.run.results import Onnx

OPSET = 18
"""ONNX operator set of TorchScript's exporter."""
ONNX, TORCH_EXPORT, TORCHSCRIPT = "onnx", "torch_export", "torchscript"
DATA = ".data"
"""Ends the name of the file with a large program's weights, beside it."""
LARGEST_BYTES = 2**31 - 2**27
"""Of weights inside an ONNX file: protobuf takes no message of 2 GiB."""
FAST, DYNAMO, PROGRAM, TRACE = "TorchScript's exporter", "the dynamo exporter", "torch.export", "torch.jit.trace"
FORMS = {FAST: ONNX, DYNAMO: ONNX, PROGRAM: TORCH_EXPORT, TRACE: TORCHSCRIPT}
"""Form of the file that an exporter writes."""


@dataclass(frozen=True)
class Free:
    """Dimensions that a program leaves free: the batch's of every input, and lengths.

    Attributes:
        lengths: of each input the dimensions behind the first whose size varies.
    """

    lengths: dict[str, tuple[int, ...]]

    def axes(self, inputs: Inputs) -> dict[str, dict[int, str]]:
        """Return the names of free dimensions by input, as ONNX has them."""
        named = {name: {place: f"length_{place}" for place in self.lengths.get(name, ())} for name in inputs}
        return {name: {0: "batch", **places} for name, places in named.items()}

    def shapes(self, inputs: Inputs) -> tuple[dict[int, Any], ...]:
        """Return them as torch.export takes them. Raises ConfigurationError where it finds out none by itself."""
        batch = torch.export.Dim("batch")
        free = getattr(torch.export.Dim, "AUTO", None)
        if free is None:
            instead = "Let the model be one that ONNX has"
            raise releases.needed("An export by torch.export", releases.FREE_SIZES, instead)
        return tuple({0: batch, **dict.fromkeys(self.lengths.get(name, ()), free)} for name in inputs)


def write(exporter: str, serving: Serving, inputs: Inputs, free: Free, path: Path) -> Call:
    """Write the program by one of the exporters; return how it is called.

    Args:
        inputs: a few real rows in raw units, at least two where there are so many.

    Raises:
        Exception: the exporter's own, of any kind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with quiet(), torch.no_grad():
        {FAST: _fast, DYNAMO: _dynamo, PROGRAM: _program, TRACE: _trace}[exporter](serving, inputs, free, path)
        if exporter == PROGRAM:
            return _called(torch.export.load(path).module())
        return _called(torch.jit.load(path)) if exporter == TRACE else load_onnx(path)  # type: ignore[no-untyped-call]


def data_of(path: Path) -> Path:
    """Return where the weights of an ONNX file stand, if they are not inside."""
    return path.with_name(path.name + DATA)


def is_large(serving: Serving) -> bool:
    """Return whether the weights have no room inside an ONNX file."""
    held = {value.data_ptr(): value.nbytes for value in (*serving.parameters(), *serving.buffers())}
    return sum(held.values()) > LARGEST_BYTES


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporters' warnings: parity with the model decides."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export", "torch.fx")]
    levels = [logger.level for logger in loggers]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _fast(serving: Serving, inputs: Inputs, free: Free, path: Path) -> None:
    if is_large(serving):
        raise ConfigurationError(
            f"The weights take more than {LARGEST_BYTES:,} bytes, which TorchScript's exporter cannot put in one file.",
            remedy="The dynamo exporter puts them beside the program.",
        )
    names = serving.output_names
    axes = free.axes(inputs) | {name: {0: "batch"} for name in names}
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a layer of attention as one operation is not in ONNX
    try:
        torch.onnx.export(
            serving, tuple(inputs.values()), str(path), dynamo=False, input_names=list(inputs), output_names=names,
            dynamic_axes=axes, opset_version=OPSET,
        )  # fmt: skip
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _dynamo(serving: Serving, inputs: Inputs, free: Free, path: Path) -> None:
    program: Any = torch.onnx.export(
        serving, tuple(inputs.values()), dynamo=True, dynamic_shapes=(free.shapes(inputs),), input_names=list(inputs),
        output_names=serving.output_names, verbose=False,
    )  # fmt: skip
    program.save(str(path), external_data=is_large(serving))


def _program(serving: Serving, inputs: Inputs, free: Free, path: Path) -> None:
    program = torch.export.export(serving, tuple(inputs.values()), dynamic_shapes=(free.shapes(inputs),), strict=False)
    if not hasattr(_archive_parts(), "WEIGHTS_CONFIG_FILENAME_FORMAT"):  # older archives hold pickles: never loaded
        raise releases.needed("A program of torch.export", releases.PROGRAM, "Let the model be one that ONNX has")
    torch.export.save(program, path)


def _trace(serving: Serving, inputs: Inputs, free: Free, path: Path) -> None:  # noqa: ARG001 - it names no sizes
    """Write what the model computes for these rows: that it does so for others is what the comparison shows."""
    traced = torch.jit.trace(serving, tuple(inputs.values()), check_trace=False)  # type: ignore[no-untyped-call]
    torch.jit.save(traced, path)


def _archive_parts() -> Any:
    """Return torch's names of an archive's parts; None where it has no such archive."""
    name = "torch.export.pt2_archive"
    return import_module(f"{name}.constants") if find_spec(name) is not None else None


def load_onnx(path: Path) -> Call:
    """Return how an ONNX file is called. Raises the runtime's errors."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    taken = {item.name for item in session.get_inputs()}  # an input that changes nothing is no part of the file

    def call(inputs: Inputs) -> list[Tensor]:
        given = {name: value.numpy() for name, value in inputs.items() if name in taken}
        return [torch.from_numpy(value) for value in session.run(None, given)]

    return call


def _called(module: Any) -> Call:
    def call(inputs: Inputs) -> list[Tensor]:
        with torch.no_grad():
            outputs = module(*inputs.values())
        return [outputs] if isinstance(outputs, Tensor) else list(outputs)

    return call


def onnx_evidence(path: Path, parity: Parity) -> Onnx:
    """Return the record of an ONNX file: its operators, inputs and shapes, and the comparison with the model."""
    import onnx
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = parity.as_dict()
    return Onnx(
        opset=onnx.load(str(path), load_external_data=False).opset_import[0].version,
        inputs={item.name: item.type for item in session.get_inputs()},
        shapes={item.name: list(item.shape) for item in (*session.get_inputs(), *session.get_outputs())},
        **found,
    )
