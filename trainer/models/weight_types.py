"""Types in which weights are held: full or bfloat16, or quantised where bitsandbytes runs.

Trained parts beside frozen weights of a shorter type stay float32, the master precision of their updates: of a number
in bfloat16 an update below 1/256 of it is lost (Kalamkar et al. 2019, arXiv:1905.12322).
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, Literal

from trainwright.trainer.base.errors import ConfigurationError

if TYPE_CHECKING:
    import torch
    from torch import nn

Dtype = Literal["float32", "bfloat16"]
Quantisation = Literal["8bit", "4bit"]


def type_of(dtype: Dtype) -> torch.dtype:
    """Return torch's type, for the library to load in: it keeps what it computes in float32 so, such as RoPE's tables.

    A model cast afterwards has them rounded, and answers otherwise at long positions.
    """
    import torch

    return torch.float32 if dtype == "float32" else torch.bfloat16


def held_in(config: Any, kind: torch.dtype) -> dict[str, Any]:
    """Return the argument with which the library builds or loads a model of this configuration in a type.

    Its name is the configuration's own for it: before transformers 4.56 that was `torch_dtype`.
    """
    return {"dtype" if hasattr(config, "dtype") else "torch_dtype": kind}


def is_quantised(model: nn.Module) -> bool:
    """Return whether weights are held in whole numbers, which no cast makes exact and nothing can be merged into."""
    return any(not (each.is_floating_point() or each.is_complex()) for each in model.parameters())


def quantised(quantisation: Quantisation | None) -> dict[str, Any]:
    """Return the arguments of from_pretrained that load quantised weights (Dettmers et al. 2023, arXiv:2305.14314).

    Raises:
        ConfigurationError: there is no CUDA device, or no bitsandbytes.
    """
    if quantisation is None:
        return {}
    import torch

    missing = None if torch.cuda.is_available() else "torch sees no CUDA device"
    if missing is None and importlib.util.find_spec("bitsandbytes") is None:
        missing = "the package bitsandbytes is not installed"
    if missing is not None:
        raise ConfigurationError(
            f"`model.args.quantize` = {quantisation!r} needs a CUDA device and bitsandbytes, and {missing}.",
            remedy="Take model.args.quantize out, and set model.args.dtype bfloat16, which halves the frozen weights "
            "on any device; or run on a machine with a GPU.",
            document="configs/models.md",
            details={"changes": {"model.args.quantize": None, "model.args.dtype": "bfloat16"}},
        )
    from transformers import BitsAndBytesConfig

    options: dict[str, Any] = {"load_in_8bit": True}
    if quantisation == "4bit":
        compute = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}
        options = {"load_in_4bit": True, **compute}
    return {"quantization_config": BitsAndBytesConfig(**options), "device_map": {"": torch.cuda.current_device()}}


def raise_trained(model: nn.Module) -> None:
    """Hold trained parameters in float32 where frozen weights beside them are of a shorter type.

    Their modules take inputs of the shorter type as before.
    """
    import torch

    short = (torch.bfloat16, torch.float16)
    if all(parameter.requires_grad for parameter in model.parameters()):
        return
    for module in model.modules():
        own = [each for each in module.parameters(recurse=False) if each.requires_grad and each.dtype in short]
        for parameter in own:
            parameter.data = parameter.data.float()
        if own:
            module.register_forward_pre_hook(_as_its_weights)


def told_types(model: nn.Module) -> str | None:
    """Return in which types weights are held and updated, in a few words; None where all are float32."""
    import torch

    def types(*, trained: bool) -> list[str]:
        found = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.requires_grad is trained}
        return sorted(found)

    updated, frozen = types(trained=True), types(trained=False)
    if {*updated, *frozen} <= {str(torch.float32).removeprefix("torch.")}:
        return None
    beside = f"; frozen weights {' and '.join(frozen)}" if frozen else ""
    copy = ", with no float32 copy" if updated != ["float32"] else ""
    return f"Updates are made in {' and '.join(updated)}{copy}{beside}."


def _as_its_weights(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a call's inputs, floating-point ones in the type of the module's weights."""
    from torch import Tensor

    dtype = next(module.parameters(recurse=False)).dtype
    return tuple(
        value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value for value in inputs
    )
