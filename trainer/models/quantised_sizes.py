"""Sizes of weights that bitsandbytes would hold in 8 or 4 bits, for an estimate where it does not run.

Layout and working space are those of its Linear4bit and Linear8bitLt (Dettmers et al. 2023, arXiv:2305.14314): packed
numbers with a float32 scale for each block of 64, or int8 with one for each row; a layer's whole weight in bfloat16
while it multiplies, forward and backward. Nothing here computes anything. B samples, I inputs, O outputs of a layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.trainer.models.weight_types import Quantisation

BLOCK = 64
"""Numbers that share a scale, of 4 bits."""
COMPUTES_IN = torch.bfloat16


def in_quantised_sizes(model: Any, quantisation: Quantisation) -> Any:
    """Return a model of sizes with the linear layers that the library would quantise in their packed sizes."""
    try:
        from transformers.quantizers.base import get_keys_to_not_convert
    except ImportError:  # its place before transformers 5
        from transformers.integrations.bitsandbytes import get_keys_to_not_convert

    kept = set(get_keys_to_not_convert(model))
    for name, module in list(model.named_modules()):
        is_kept = any(name == key or name.startswith(f"{key}.") for key in kept)
        if type(module).__name__ in {"Linear", "Conv1D"} and not is_kept:
            model.set_submodule(name, Packed(module, quantisation))
    return model


class Packed(nn.Linear):
    """A layer whose weight is packed; `stands_for` of its weight tells how many numbers it holds."""

    def __init__(self, layer: Any, quantisation: Quantisation) -> None:
        nn.Module.__init__(self)
        rows, columns = layer.weight.shape if isinstance(layer, nn.Linear) else reversed(layer.weight.shape)
        self.out_features, self.in_features = int(rows), int(columns)
        count = self.out_features * self.in_features
        if quantisation == "4bit":
            packed = torch.empty(-(-count // 2), 1, dtype=torch.uint8)
            scales = torch.empty(-(-count // BLOCK))
        else:
            packed, scales = torch.empty(self.out_features, self.in_features, dtype=torch.int8), torch.empty(int(rows))
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.weight.stands_for = count  # type: ignore[attr-defined]
        self.register_buffer("scales", scales, persistent=False)
        self.bias = layer.bias
        if self.bias is not None:
            self.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what takes the place of outputs, (batch, ..., outputs), in the type of x, (batch, ..., inputs)."""
        product: Tensor = _Product.apply(x, self.weight, self.bias, (self.out_features, self.in_features))  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    """Product with a weight that is unpacked anew in each direction, as bitsandbytes' MatMul4Bit does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, bias: Tensor | None, shape: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(packed)
        ctx.shape, ctx.dtype = shape, x.dtype
        whole = packed.new_empty(shape, dtype=COMPUTES_IN)
        return functional.linear(x.to(COMPUTES_IN), whole, None if bias is None else bias.to(COMPUTES_IN)).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (packed,) = ctx.saved_tensors
        whole = packed.new_empty(ctx.shape, dtype=COMPUTES_IN)
        return (gradients[0].to(COMPUTES_IN) @ whole).to(ctx.dtype), None, None, None
