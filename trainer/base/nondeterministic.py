"""Operations that torch refuses as non-deterministic: which one it was, and what to write instead."""

from __future__ import annotations

import re

from trainwright.trainer.errors import ReproducibilityError

_REFUSED = re.compile(r"([\w:<>~. ()=]+?) does not have a deterministic implementation")

_INSTEAD = (
    ("put_", "torch.Tensor.index_put_(indices, values), or put_ with accumulate=True"),
    ("upsample", "interpolate with mode='nearest', or a transposed convolution"),
    ("adaptive_avg_pool", "AvgPool2d, or mean over the axes"),
    ("avg_pool3d", "mean over the axes, or a strided convolution"),
    ("max_pool", "amax over the axes, or a strided convolution"),
    ("unpool", "a transposed convolution"),
    ("reflection_pad", "zero padding"),
    ("replication_pad", "zero padding"),
    ("grid_sampler", "resampling in the data set, before the model"),
    ("nll_loss", "flattening outputs to (rows, classes) and targets to (rows)"),
    ("ctc_loss", "computing this loss on the CPU"),
    ("cumsum", "multiplication with a triangular matrix"),
    ("histc", "torch.bincount without weights of bucketized values"),
    ("bincount", "one_hot(...).T @ weights"),
    ("median", "torch.sort, and the middle value"),
    ("kthvalue", "torch.sort, and its k-th value"),
    ("embedding_bag", "Embedding, then amax over the axis"),
    ("scatter", "torch.Tensor.index_add_, or scatter_add_ on the CPU"),
)
"""What to write instead of an operation, by a part of torch's name for it."""


def refusal(error: BaseException) -> ReproducibilityError | None:
    """Return the clear error when torch refused an operation as non-deterministic, else None."""
    found = _REFUSED.search(str(error))
    if found is None:
        return None
    operation = found.group(1).strip().split()[-1] if "accumulate" not in found.group(1) else found.group(1).strip()
    return ReproducibilityError(
        f"The operation {operation} has no deterministic implementation on this device, so no two runs would agree.",
        remedy=f"In the model or loss, replace {operation} by {_instead_of(operation)}. Only where the model cannot do "
        f"without it: configure(project=…, ask_owner={{'exemption': {operation!r}}}) asks the owner for an exemption.",
        document="reproducibility/determinism.md",
        details={"operation": operation},
    )


def _instead_of(operation: str) -> str:
    known = (instead for part, instead in _INSTEAD if part in operation.lower())
    return next(known, "basic operations (matmul, sum, sort, index_add_), or compute this part on the CPU")
