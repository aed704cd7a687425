"""Memory of a GPU's kernels in a trace on the CPU: their workspaces, and what attention keeps.

Seen on a card (docs/gpu.md, memory_estimate): cuBLAS takes its workspace at a thread's first product and keeps it, and
autograd computes backward passes on a GPU in a thread of its own, so there are two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainwright.trainer.estimation.workspace import PRODUCTS, SHORT

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
