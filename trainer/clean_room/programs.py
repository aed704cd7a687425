"""Programs: exported models, read from files whose SHA-256 is checked, and run on the CPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .rows import Array, RefusalError, checked

REPEATED = "Repeat the run: it exports its program at its end."
TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
}  # fmt: skip
"""Types of ONNX inputs, as numpy has them."""


class Program(Protocol):
    """A model as a file: named arrays in, named arrays out.

    Attributes:
        batch: how many rows it takes at a time; None: any number.
        versions: of the libraries that run it.
    """

    batch: int | None
    versions: dict[str, str]

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name, each (rows, ...), for inputs (rows, ...)."""
        ...


def open_program(order: Mapping[str, Any], threads: int) -> Program:
    """Return the program of an order. Raises RefusalError when its file is another, or cannot be run."""
    path = Path(order["path"])
    if not path.is_file():
        raise RefusalError(f"There is no program {path.name}.", REPEATED)
    content = checked(path, str(order["digest"]), path.name, REPEATED)
    form = order.get("form")
    if form == "onnx":
        return OnnxProgram(path, content, order, threads)
    if form == "torch_export":
        return TorchProgram(path, content, order, threads)
    raise RefusalError(f"A program of the form {form!r} cannot be run here.", "Export it as onnx or torch_export.")


class OnnxProgram:
    """A program that ONNX Runtime runs."""

    def __init__(self, path: Path, content: bytes, order: Mapping[str, Any], threads: int) -> None:
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        nowhere = str(Path(__file__).parent)  # no file beside the program, which nobody compared, is part of it
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", nowhere)
        weights = _weights_beside(path, order.get("data") or {})
        if weights:  # of a program above 2 GB: what was compared is what is run
            sizes = [len(content) for content in weights.values()]
            options.add_external_initializers_from_files_in_memory(list(weights), list(weights.values()), sizes)
        try:
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise RefusalError(f"ONNX Runtime cannot load {path.name}: {_first_line(error)}.", REPEATED) from error
        self.session: Any = session
        self.outputs = [output.name for output in session.get_outputs()]
        self.inputs = {given.name: _type_of(given) for given in session.get_inputs()}
        self.names = list(order.get("inputs") or [])
        first = [given.shape[0] if given.shape else None for given in session.get_inputs()]
        self.batch = next((size for size in first if isinstance(size, int)), order.get("batch"))
        self.versions = {"onnxruntime": onnxruntime.__version__}

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name, each (rows, ...), for inputs (rows, ...) by name, or in the program's order."""
        given = by_name(inputs, list(self.inputs), self.names)
        feed = {name: np.ascontiguousarray(given[name], dtype=kind) for name, kind in self.inputs.items()}
        try:
            values = self.session.run(None, feed)
        except Exception as error:
            raise RefusalError(f"The program fails on the stored rows: {_first_line(error)}.", REPEATED) from error
        return {name: _wide(np.asarray(value)) for name, value in zip(self.outputs, values, strict=True)}


def _weights_beside(path: Path, digests: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the content of the program's other files by name. Raises RefusalError where one is another, or missing."""
    found = {}
    for name, digest in digests.items():
        beside = path.parent / Path(name).name
        if not beside.is_file():
            raise RefusalError(f"There is no {beside.name} beside {path.name}, which holds its weights.", REPEATED)
        found[name] = checked(beside, str(digest), beside.name, REPEATED)
    return found


class TorchProgram:
    """A program of torch.export, run by torch; its archive is written anew first (archives.py)."""

    def __init__(self, path: Path, content: bytes, order: Mapping[str, Any], threads: int) -> None:
        from .archives import rewritten

        archive = rewritten(path, content)
        os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # torch unpickles numbers alone
        try:
            import torch
        except ImportError:
            raise RefusalError(
                f"{path.name} is a torch.export program, and the server has no torch.",
                "Export it as ONNX; or install torch beside the server: pip install 'trainwright[train]'.",
            ) from None

        torch.set_num_threads(threads)
        try:
            self.call: Any = torch.export.load(archive).module(check_guards=False)
        except Exception as error:
            raise RefusalError(f"torch cannot load {path.name}: {_first_line(error)}.", REPEATED) from error
        self.torch: Any = torch
        self.inputs, self.outputs = list(order.get("inputs") or []), list(order.get("outputs") or [])
        self.batch: int | None = None
        self.versions = {"torch": str(torch.__version__)}

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name, each (rows, ...), for inputs (rows, ...) in the order that the program takes."""
        given = by_name(inputs, self.inputs or list(inputs), self.inputs)
        tensors = [self.torch.from_numpy(np.array(given[name])) for name in self.inputs or given]
        try:
            with self.torch.no_grad():
                found = self.call(*tensors)
        except Exception as error:
            raise RefusalError(f"The program fails on the stored rows: {_first_line(error)}.", REPEATED) from error
        values = [found] if isinstance(found, self.torch.Tensor) else list(found)
        names = self.outputs if len(self.outputs) == len(values) else [f"output_{n}" for n in range(len(values))]
        half = (self.torch.bfloat16, self.torch.float16)
        plain = [value.float() if value.dtype in half else value for value in values]
        return {name: value.numpy() for name, value in zip(names, plain, strict=True)}


def by_name(inputs: Mapping[str, Array], wanted: list[str], order: list[str]) -> Mapping[str, Array]:
    """Return the inputs by the program's names: those of the rows, or as many in the order of the call.

    Raises:
        RefusalError: the rows lack one that the program wants (one that it does not use may be left out).
    """
    if all(name in inputs for name in wanted):
        return inputs
    names = order if len(order) == len(inputs) else wanted
    if len(names) == len(inputs) and set(wanted) <= set(names):
        return dict(zip(names, inputs.values(), strict=True))
    raise RefusalError(
        f"The program wants {', '.join(wanted)}; the rows have {', '.join(inputs)}.",
        "Let the model take the inputs of the data's samples, by the same names.",
    )


def _wide(values: Array) -> Array:
    """Return half-precision outputs as float32, like the engine's metrics take them."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _type_of(given: Any) -> Any:
    if given.type not in TYPES:
        raise RefusalError(
            f"The program's input {given.name} is of {given.type}, which stored rows cannot be.", REPEATED
        )
    return TYPES[given.type]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
