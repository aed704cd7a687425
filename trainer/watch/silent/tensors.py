"""Facts about tensors that a step passes on: statistics by feature, and rows that are alike or not finite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.watch.inspector import read_scalars

MAX_ROWS = 256
MAX_FEATURES = 4096
LEFT_OUT = 16
"""Of so many rows one is left out of a feature's statistics, and one may be wild."""
WILD = 50.0
"""Deviations from the usual rows."""
SAME = 1e-6
"""Rows whose range is within this share of the largest value are alike."""
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Facts:
    """One tensor, rows first.

    Attributes:
        shape: without the rows.
        mean, std: of each feature (of images and sequences: each channel), (features,), by the usual rows; None for
            whole numbers.
        bad_rows: numbers of the rows that hold NaN or +inf (-inf is what masks are made of).
        alike: whether all rows are the same.
    """

    rows: int
    shape: tuple[int, ...]
    dtype: str
    mean: Tensor | None
    std: Tensor | None
    bad_rows: list[int]
    alike: bool
    wild_rows: list[int] = field(default_factory=list)
    wildest: float = 0.0
    """Of the wild rows: deviations of half of the features from the usual rows' means, the largest row's."""


@torch.no_grad()
def facts_of(value: Tensor) -> Facts:
    """Return the facts of a tensor (rows, ...); of a large one those of its first rows."""
    kind = str(value.dtype).removeprefix("torch.")
    plain = value.detach()[:MAX_ROWS]
    if not value.is_floating_point():
        alike = len(plain) > 1 and bool((plain == plain[:1]).all())
        return Facts(len(value), tuple(value.shape[1:]), kind, None, None, [], alike)
    flat = plain.reshape(len(plain), -1)
    bad = (torch.isnan(flat) | torch.isposinf(flat)).any(dim=1)
    whole = plain[~bad].double()
    mean, std = _by_feature(_usual(whole)) if whole.numel() else (None, None)
    rows = bad.nonzero().flatten().tolist()
    wild, wildest = ([], 0.0) if rows or mean is None or std is None else _wild(whole, mean, std)
    return Facts(len(value), tuple(value.shape[1:]), kind, mean, std, rows, alike_rows(flat), wild, wildest)


def _usual(rows: Tensor) -> Tensor:
    """Return the rows without the sixteenth of the largest values: a wild row alone would move every feature."""
    largest = rows.reshape(len(rows), -1).abs().amax(dim=1)
    kept = len(rows) - len(rows) // LEFT_OUT
    return rows[largest <= largest.sort().values[kept - 1]]  # CUDA has no deterministic kthvalue


def _wild(rows: Tensor, mean: Tensor, std: Tensor) -> tuple[list[int], float]:
    """Return the rows most of whose features lie far outside, and how far the farthest does.

    One column far outside may be a heavy tail, and a column that the usual rows share says nothing.
    """
    live = std > 0
    if len(rows) < LEFT_OUT or not live.any():
        return [], 0.0
    places = _places(rows).reshape(len(rows), -1, len(mean)).mean(dim=1).cpu()
    apart = ((places - mean)[:, live].abs() / std[live]).median(dim=1).values
    wild = ((apart >= WILD) & torch.isfinite(apart)).nonzero().flatten()  # -inf is what masks are made of
    return (wild.tolist(), float(apart[wild].max())) if 0 < len(wild) <= len(rows) // LEFT_OUT else ([], 0.0)


def _places(values: Tensor) -> Tensor:
    """Return (rows times places, features): of tables columns, else channels."""
    if values.dim() == 1:
        values = values[:, None]
    if values.dim() == 2:
        return values[:, :MAX_FEATURES]
    at = 1 if values.dim() == 4 else values.dim() - 1  # channels first in images, last in sequences
    return values.movedim(at, -1).reshape(-1, values.shape[at])[:, :MAX_FEATURES]


def _by_feature(values: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return mean and standard deviation over rows and places."""
    columns = _places(values)
    columns = columns[torch.isfinite(columns).all(dim=1)]
    if len(columns) < 2:
        return None, None
    return columns.mean(dim=0).cpu(), columns.std(dim=0).cpu()


def alike_rows(flat: Tensor) -> bool:
    """Whether all rows of (rows, values) are the same to within rounding; never of fewer than four."""
    if len(flat) < 4 or not flat.numel() or not bool(torch.isfinite(flat).all()):
        return False
    spread = (flat.amax(dim=0) - flat.amin(dim=0)).max()
    return bool(spread <= SAME * flat.abs().max())


def tensors_in(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a nested value that have rows, (rows, ...), with their names or numbers."""
    if isinstance(value, Tensor):
        if value.dim() and len(value):
            yield name or "0", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_in(item, str(key))
    elif isinstance(value, tuple | list) and len(value) <= 64:
        for number, item in enumerate(value):
            yield from tensors_in(item, f"{name}.{number}" if name else str(number))


@torch.no_grad()
def checksums(tensors: Iterable[Tensor]) -> list[int]:
    """Return the sums of the bits of tensors of any shape: equal where nothing has changed."""
    sums = []
    for value in tensors:
        local = value.detach()
        local = local.to_local() if hasattr(local, "to_local") else local
        real = torch.view_as_real(local) if local.is_complex() else local
        sums.append(real.view(BITS[real.element_size()]).sum(dtype=torch.int64))
    return read_scalars(sums)


@torch.no_grad()
def total(tensors: Iterable[Tensor]) -> float:
    """Return the norm of all tensors together, of any shape, as a scalar."""
    norms = [torch.linalg.vector_norm(value.detach().float()) for value in tensors]
    return float(torch.linalg.vector_norm(torch.tensor(read_scalars(norms)))) if norms else 0.0
