"""Bounds of what the CPU's kernels take for themselves while they work, beside their inputs and outputs.

A tensor's sizes do not show it: oneDNN copies a convolution's operands into layouts of its own, with channels in blocks
of 16, and adds 16-bit gradients up in fp32. The bounds follow the order in which these copies come and go. They were
held against the reports of torch's CPU allocator for drawn shapes (benchmarks/memory/kernels.py, `--kernels`; torch
2.13, AVX-512 and AVX2): plain, strided and depthwise convolutions closely, with half or more of the bounds exact;
dilated, grouped and transposed ones and channels_last by a wider bound. A CPU without 16-bit instructions leaves
16-bit operands to torch, which unfolds an image and copies nothing of a product; one with AMX takes buffers for tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

aten = torch.ops.aten
PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default}
BLOCKING = {torch.bfloat16: (0.6, 1_600_000), torch.float16: (0.71, 2_600_000)}
"""Of 16-bit products: a share of the inputs' bytes, and at most so many, beside a thread's small buffers. As measured
with one thread, from (41, 1024, 128) to (32000, 1024, 256); of small ones (32 to 128 square) on two makes of CPU, where
the small buffers are most of it. fp32 takes nothing."""
EXCHANGES = {torch.ops.c10d._allgather_base_.default: 0, torch.ops.c10d._reduce_scatter_base_.default: 1}
"""Exchanges of divided tensors that gloo makes in a copy of its own, with the argument that is copied."""
SHORT = {torch.bfloat16, torch.float16}
BLOCK = 16
"""Channels that oneDNN puts beside each other."""
TILE = 32
"""Channels of 16 bits that AMX takes at a time; what it adds was measured (benchmarks/memory/kernels.py)."""
TURNED = 1.25
"""Copies of an image that each thread turns round in a 16-bit backward pass, as a share of its size."""
SMALL_BYTES = 2**16
"""Of a thread's buffers to transpose rows and the like."""
PRODUCT_BYTES = 2**15
"""Of a thread's buffers for blocks of a 16-bit product."""
GEMM_SUMS = 4
"""Copies of a weight's gradient that each thread holds where oneDNN falls back to a matrix product."""
UNFOLDED_BELOW = 20_480
"""Numbers of one image up to which torch unfolds it itself instead of asking oneDNN; of one volume always."""
VOLUME = 5
"""Dimensions of a batch of volumes."""


def workspace(func: Any, args: Any) -> int:
    """Return a bound of the bytes that an operation of torch holds besides its inputs and outputs, on the CPU."""
    if func in PRODUCTS:
        return _of_product(args)
    if func is aten.convolution.default:
        return _forward(_convolution(args[0], args[1], None, Geometry(*args[3:9])))
    if func is aten.convolution_backward.default:
        return _backward(_convolution(args[1], args[2], args[0].shape, Geometry(*args[4:10])))
    if func in EXCHANGES:
        whole = args[EXCHANGES[func]]
        return int(whole.numel() * whole.element_size())
    return 0


def _of_product(args: Any) -> int:
    if not all(isinstance(one, Tensor) for one in args[-2:]):
        return 0
    bound = BLOCKING.get(args[-1].dtype) if _is_taken(args[-1].dtype) else None
    if bound is None:
        return 0
    inputs = sum(one.numel() * one.element_size() for one in args[-2:])
    blocks = min(round(bound[0] * inputs), bound[1]) if _is_native(args[-1].dtype) else inputs
    return int(blocks) + PRODUCT_BYTES * torch.get_num_threads()


def _is_taken(dtype: torch.dtype) -> bool:
    """Whether oneDNN computes with numbers of this kind on this CPU; what it declines, torch computes itself."""
    if dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype is not torch.float16 or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


def _is_native(dtype: torch.dtype) -> bool:
    """Whether the CPU multiplies numbers of this kind itself; where it does not, oneDNN widens both inputs first."""
    return dtype is not torch.bfloat16 or bool(torch.cpu._is_avx512_bf16_supported())


@dataclass(frozen=True)
class Convolution:
    """Bytes of a convolution's input, weight and output, and of their copies in blocks."""

    x: int
    weight: int
    y: int
    x_blocked: int
    weight_blocked: int
    y_blocked: int
    unfolded: int
    """Of the input with a copy for each tap."""
    images: int
    is_wide: bool
    """Whether numbers have more than 2 bytes."""
    is_strided: bool
    is_narrow: bool
    """Whether the input has but one block of channels."""
    is_pointwise: bool
    is_odd: bool
    """Whether the bound is the wider one."""
    is_native: bool
    """Whether torch unfolds the input itself."""
    x_in_tiles: int
    """Of the input in blocks of as many channels as a tile takes."""
    is_tiled: bool
    """Whether AMX multiplies, from a padded image and into fp32 sums of each thread's own."""
    is_overhanging: bool
    """Whether the kernel is longer than the image; like odd ones, AVX2's direct backward pass does not take it."""


class Geometry(NamedTuple):
    """How a convolution lies over its input, as torch's operations take it."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int


def _convolution(x: Tensor, weight: Tensor, outputs: Sequence[int] | None, how: Geometry) -> Convolution:
    """Return the sizes of a call of torch's; `outputs` is the output's shape where it is known."""
    size, taps = x.element_size(), prod(weight.shape[2:])
    images, inputs, area = x.shape[0], x.shape[1], prod(x.shape[2:])
    channels = weight.shape[1] * how.groups if how.transposed else weight.shape[0]
    places = prod(_outputs(x, weight, how) if outputs is None else outputs[2:])
    others = weight.shape[1] if how.groups > 1 else _blocked(weight.shape[1])
    is_partly_grouped = how.groups not in {1, inputs} or (how.groups > 1 and x.dim() == VOLUME)
    is_small = x.numel() <= UNFOLDED_BELOW or x.dim() == VOLUME
    return Convolution(
        x=x.numel() * size,
        weight=weight.numel() * size,
        y=images * channels * places * size,
        x_blocked=images * _blocked(inputs) * area * size,
        weight_blocked=_blocked(weight.shape[0]) * others * taps * size,
        y_blocked=images * _blocked(channels) * places * size,
        unfolded=images * max(inputs, channels) * taps * (area if how.transposed else places) * size,
        images=images,
        is_wide=x.dtype not in SHORT,
        is_strided=max(how.stride) > 1,
        is_narrow=inputs <= BLOCK,
        is_pointwise=taps == 1,
        is_odd=how.transposed or max(how.dilation) > 1 or is_partly_grouped or not x.is_contiguous(),
        is_native=x.dtype == torch.float16 or not _is_taken(x.dtype) or (images == 1 and is_small),
        x_in_tiles=images * _blocked(inputs, TILE) * area * size,
        is_tiled=x.dtype is torch.bfloat16 and bool(torch.cpu._is_amx_tile_supported()),
        is_overhanging=any(taps > length for taps, length in zip(weight.shape[2:], x.shape[2:], strict=True)),
    )


def _blocked(channels: int, block: int = BLOCK) -> int:
    return -(-channels // block) * block


def _outputs(x: Tensor, weight: Tensor, how: Geometry) -> list[int]:
    """Return the output's lengths."""
    found = []
    for axis, (length, taps) in enumerate(zip(x.shape[2:], weight.shape[2:], strict=True)):
        step, edge, reach, added = (
            values[axis % len(values)] for values in (how.stride, how.padding, how.dilation, how.output_padding)
        )
        reach *= taps - 1
        if how.transposed:
            found.append((length - 1) * step - 2 * edge + reach + added + 1)
        else:
            found.append((length + 2 * edge - reach - 1) // step + 1)
    return found


def _forward(of: Convolution) -> int:
    """Return the bound of a forward pass: blocked copies of all three, then the output's beside the output."""
    copies = of.x_blocked + of.weight_blocked
    size = max(copies + of.y_blocked - of.y, of.y_blocked)
    if of.is_pointwise:
        size += min(of.x_blocked, of.y_blocked) if of.is_wide else max(2 * of.y_blocked, of.x_blocked)
    if of.is_odd:
        size += (1 if of.is_wide else 2) * of.y_blocked + 2 * copies
    if of.is_native:
        size = max(size, of.unfolded + of.weight_blocked)
    if of.is_tiled:
        size = max(size, 2 * of.y_blocked) + _of_tiles(of) + 2 * of.x_in_tiles * of.is_strided
    return size + SMALL_BYTES * torch.get_num_threads()


def _of_tiles(of: Convolution) -> int:
    """Return the bytes of all threads' padded images, at most twice an image's, of fp32 sums and small buffers."""
    return torch.get_num_threads() * (2 * (of.x_blocked + of.y_blocked) // of.images + 3 * SMALL_BYTES)


def _backward(of: Convolution) -> int:
    """Return the bound of a backward pass: first the input's gradient, then, beside it, the weight's."""
    copies = of.x_blocked + of.weight_blocked + of.y_blocked
    first = copies + (min(of.x_blocked, of.y_blocked) if of.is_pointwise else 0)
    if of.is_strided:
        first = max(copies + of.weight_blocked + (of.x_blocked if of.is_narrow else 0), 3 * of.x)
    first = max(first, 2 * of.x)
    threads = torch.get_num_threads()
    sums = (1 if of.is_wide else 3) + (threads - 1) * (1 if of.is_wide else 2)
    turned = 0 if of.is_wide else TURNED * min(of.images, threads) * (of.x_blocked + of.y_blocked) / of.images
    second = of.x + max(of.x_blocked + of.y_blocked + sums * of.weight_blocked + round(turned), 2 * of.weight_blocked)
    size = max(first, second) - of.x - of.weight
    if of.is_tiled:
        size += _of_tiles(of) + of.x_in_tiles + 3 * of.weight_blocked * of.is_odd
    if of.is_odd:
        size += of.x_blocked + of.y_blocked + 4 * of.weight_blocked
    if of.is_native:
        size = max(size, of.unfolded + of.x + of.y + 2 * of.weight)
    if (of.is_overhanging or of.is_odd) and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        size = max(size, threads * (GEMM_SUMS * of.weight + of.unfolded // of.images))
    return size + SMALL_BYTES * torch.get_num_threads()


# Memory of a GPU's kernels in a trace on the CPU: their workspaces, and what attention keeps.
#
# Seen on a card (docs/gpu.md, memory_estimate): cuBLAS takes its workspace at a thread's first product and keeps it,
# and autograd computes backward passes on a GPU in a thread of its own, so there are two.

CUBLAS_BYTES = 8 * 4096 * 2**10
"""Of one workspace under CUBLAS_WORKSPACE_CONFIG=:4096:8, which workers are started with."""


class Workspaces:
    """Workspaces of cuBLAS as they come: one for forward passes, one for autograd's own thread."""

    def __init__(self) -> None:
        self.threads: set[bool] = set()

    def taken(self, func: Any) -> int:
        """Return the bytes that an operation of torch takes for good."""
        is_backward = torch._C._current_graph_task_id() != -1
        if func not in PRODUCTS or is_backward in self.threads:
            return 0
        self.threads.add(is_backward)
        return CUBLAS_BYTES


@contextmanager
def gpu_attention() -> Iterator[None]:
    """Let attention inside take that kernel of the CPU which keeps what a GPU's would: a fused one, or the plain one.

    A GPU's flash attention takes 16-bit numbers without a mask, its memory-efficient one needs as many heads of keys as
    of queries, and both take dropout, which the CPU's fused one does not (torch's sdp_utils.cpp). The function itself
    is replaced: a mode of torch's would not reach what a backward pass computes again.
    """
    original = F.scaled_dot_product_attention

    def attend(query: Tensor, key: Tensor, *args: Any, **named: Any) -> Tensor:
        given = dict(zip(("value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | named
        is_short = query.dtype in SHORT or torch.is_autocast_enabled(query.device.type)
        if query.shape[-3] == key.shape[-3] or (is_short and given.get("attn_mask") is None):
            return original(query, key, **given | {"dropout_p": 0.0})
        with sdpa_kernel(SDPBackend.MATH):
            return original(query, key, **given)

    F.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        F.scaled_dot_product_attention = original
