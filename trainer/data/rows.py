"""Rows of arrays as their source has them, read a block at a time.

Nothing here calls Python once a row, but for the few that are drawn for a closer look (fingerprint.MAX_SAMPLES_READ).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.tensors import TensorSamples

PIECE_BYTES = 1 << 21
"""Of rows that are processed together: as many as fit into a core's cache."""
WORD = 8


def pieces(samples: TensorSamples) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
    """Yield all raw rows in order, some at a time: the number of the first, and (rows, ...) of every tensor.

    To be read only, and until the next are yielded, which take the same memory: new memory is cleared by the system,
    which would take longer than most of what is done with the rows.
    """
    row_bytes = sum(tensor[:1].numel() * tensor.element_size() for tensor in samples.base)
    step = min(max(PIECE_BYTES // max(row_bytes, 1), 1), len(samples))
    rooms = [] if samples.rows is None else [tensor.new_empty((step, *tensor.shape[1:])) for tensor in samples.base]
    for start in range(0, len(samples), max(step, 1)):
        if samples.rows is None:
            yield start, tuple(tensor[start : start + step] for tensor in samples.base)
            continue
        chosen = samples.rows[start : start + step].long()
        both = zip(samples.base, rooms, strict=True)
        yield start, tuple(torch.index_select(tensor, 0, chosen, out=room[: len(chosen)]) for tensor, room in both)


def content_digest(samples: TensorSamples) -> str:
    """Return the digest of every row in order: types, shapes and bytes."""
    hasher = blake3("".join(map(_head, samples.base)).encode())
    for _, tensors in pieces(samples):
        for tensor in tensors:
            hasher.update(_bytes(tensor).data)
    return f"blake3:{hasher.hexdigest()}"


def row_digests(samples: TensorSamples, rows: Array) -> list[str]:
    """Return `fingerprint.sample_digest` of the samples at `rows`, (chosen,): both must give the same."""
    tensors = samples.raw.gather(torch.from_numpy(rows))
    parts: list[Array] = []
    for place, tensor in enumerate(tensors):
        head = f"S{len(tensors)}" * (place == 0) + _head(tensor)
        parts += [np.tile(np.frombuffer(head.encode(), dtype=np.uint8), (len(rows), 1)), _bytes(tensor)]
    return [blake3(row).hexdigest(length=16) for row in np.hstack(parts)]


def without_targets(samples: TensorSamples) -> TensorSamples:
    """Return the raw rows without their last part, where they have several."""
    raw = samples.raw
    return TensorSamples(*(raw.base[:-1] or raw.base), rows=raw.rows)


def non_finite(samples: TensorSamples, at_most: int) -> list[int]:
    """Return the first rows with NaN or infinity."""
    found: list[int] = []
    for start, tensors in pieces(samples):
        floating = [tensor for tensor in tensors if tensor.is_floating_point()]
        if all(bool(np.isfinite(_plain(tensor)).all()) for tensor in floating):
            continue
        bad = torch.stack([~torch.isfinite(tensor.reshape(len(tensor), -1)).all(1) for tensor in floating]).any(0)
        found += [start + row for row in bad.nonzero().flatten().tolist()]
        if len(found) >= at_most:
            break
    return found[:at_most]


def labels_of(samples: TensorSamples, most: int) -> dict[int, int] | None:
    """Return how often each class number occurs; None where samples have no single one, or more than `most` occur."""
    if not has_labels(samples):
        return None
    last = samples.base[-1]
    if len(last) and int(last.min()) >= 0 and int(last.max()) < most:  # no sorting, and no copy of all
        found = torch.zeros(int(last.max()) + 1, dtype=torch.int64)
        for _, (piece,) in pieces(TensorSamples(last, rows=samples.rows)):
            found += torch.bincount(piece.reshape(-1).long(), minlength=len(found))
        return {label: int(found[label]) for label in found.nonzero().flatten().tolist()}
    values, counts = np.unique(samples.column(-1).reshape(-1).numpy(), return_counts=True)
    return None if len(values) > most else dict(zip(map(int, values), map(int, counts), strict=True))


def has_labels(samples: TensorSamples) -> bool:
    """Return whether samples have a single whole number as their last part."""
    last = samples.base[-1]
    return len(samples.base) > 1 and last[:1].numel() == 1 and ("int" in str(last.dtype) or last.dtype == torch.bool)


def unit_numbers(samples: TensorSamples) -> Array | int:
    """Return which rows are equal, byte by byte: of each the number of its first like, (rows,), by appearance.

    How many rows there are, where all differ. Rows are compared by a hash, and those that share one by their bytes:
    a hash that somebody made rows collide in costs time, never a wrong answer. Beside the hashes, 8 bytes a row,
    only rows that share one are held.
    """
    repeated = _repeated(row_hashes(samples))
    if not len(repeated):
        return len(samples)
    order, like = _grouped(samples, repeated)
    places = np.flatnonzero(like)
    equal = _are_equal(samples, order[places - 1], order[places])
    if not equal.all():
        like = _distinguished(samples, order, like, places[~equal])
    return _numbered(len(samples), order, like)


def _repeated(hashes: Array) -> Array:
    """Return the hashes that several rows have, each once; the array is used up."""
    hashes.sort()
    again = hashes[1:][hashes[1:] == hashes[:-1]]
    found: Array = again[np.append(True, again[1:] != again[:-1])] if len(again) else again
    return found


def _grouped(samples: TensorSamples, repeated: Array) -> tuple[Array, Array]:
    """Return the rows that have these hashes, those of one adjacent, and which of them have that of the one before."""
    rows, hashes = [], []
    for start, found in _hashes_by_piece(samples):  # once more: cheaper than the room for all and their order
        places = np.searchsorted(repeated, found)
        places[places == len(repeated)] = 0
        chosen = np.flatnonzero(repeated[places] == found)
        rows.append((chosen + start).astype(np.int32 if len(samples) < 2**31 else np.int64))
        hashes.append(found[chosen])
    of_rows = np.concatenate(hashes)
    del hashes
    places = np.argsort(of_rows, kind="stable")
    like = np.zeros(len(places), dtype=bool)
    of_rows = of_rows[places]
    like[1:] = of_rows[1:] == of_rows[:-1]
    return np.concatenate(rows)[places], like


def shared_rows(first: TensorSamples, second: TensorSamples, at_most: int) -> set[str]:
    """Return the digests of rows in both, of at most so many rows."""
    hashes = [row_hashes(samples) for samples in (first, second)]
    common = np.intersect1d(hashes[0], hashes[1])
    found = [np.flatnonzero(np.isin(one, common))[:at_most] for one in hashes] if len(common) else []
    digests = [set(row_digests(samples, rows)) for samples, rows in zip((first, second), found, strict=False)]
    return set.intersection(*digests) if digests else set()


def _numbered(size: int, order: Array, like: Array) -> Array:
    """Return the units of all rows, numbered by their first row.

    Args:
        size: number of rows.
        order: rows of which several may be equal, (rows,): equal ones adjacent, the first of them first.
        like: which of these equal the one before.
    """
    first = np.ones(size, dtype=bool)
    first[order[like]] = False
    units = np.cumsum(first, dtype=order.dtype)
    units -= 1
    groups = np.cumsum(~like, dtype=order.dtype) - 1
    units[order[like]] = units[order[~like][groups[like]]]
    return units


def _are_equal(samples: TensorSamples, first: Array, second: Array) -> Array:
    equal = np.ones(len(first), dtype=bool)
    for start in range(0, len(first), 4096):
        part = slice(start, start + 4096)
        pairs = zip(*(samples.raw.gather(torch.from_numpy(rows[part])) for rows in (first, second)), strict=True)
        for one, other in pairs:
            equal[part] &= (_bytes(one) == _bytes(other)).all(axis=1)
    return equal


def _distinguished(samples: TensorSamples, order: Array, like: Array, wrong: Array) -> Array:
    """Put rows of one hash that differ into an order in which equal ones are neighbours; return who is like the last.

    Hardly ever needed: `order` is changed in place.
    """
    groups = np.cumsum(~like) - 1
    like = like.copy()
    for group in np.unique(groups[wrong]):
        start, stop = np.searchsorted(groups, [group, group + 1])
        rows = order[start:stop]
        contents = np.hstack([_bytes(tensor) for tensor in samples.raw.gather(torch.from_numpy(rows))])
        numbers = np.unique(contents, axis=0, return_inverse=True)[1].reshape(-1)
        again = np.argsort(numbers, kind="stable")
        order[start:stop] = rows[again]
        like[start + 1 : stop] = numbers[again][1:] == numbers[again][:-1]
    return like


def row_hashes(samples: TensorSamples) -> Array:
    """Return a 64-bit hash of each row's bytes, (rows,)."""
    hashes = np.empty(len(samples), dtype=np.uint64)
    for start, found in _hashes_by_piece(samples):
        hashes[start : start + len(found)] = found
    return hashes


def _hashes_by_piece(samples: TensorSamples) -> Iterator[tuple[int, Array]]:
    """Yield hashes of some rows at a time, and the first row: NH of UMAC (Black et al. 1999), sums of word products."""
    width = sum(-(-tensor[:1].numel() * tensor.element_size() // WORD) for tensor in samples.base)
    keys = np.random.default_rng(0).integers(0, 2**32, (2, width), dtype=np.uint64)
    rooms: dict[int, Array] = {}
    for start, tensors in pieces(samples):
        hashes = np.zeros(len(tensors[0]), dtype=np.uint64)
        done = 0
        for number, tensor in enumerate(tensors):
            words = _words(_bytes(tensor))
            if start == 0:
                rooms[number] = np.empty((2, *words.shape), dtype=np.uint64)
            room = rooms[number][:, : len(words)]
            low = np.bitwise_and(words, np.uint64(0xFFFF_FFFF), out=room[0])
            high = np.right_shift(words, np.uint64(32), out=room[1])
            low += keys[0, done : done + words.shape[1]]
            high += keys[1, done : done + words.shape[1]]
            low *= high
            hashes += low.sum(axis=1)
            done += words.shape[1]
        yield start, hashes


def _words(data: Array) -> Array:
    """Return rows of bytes as rows of 64-bit words, the last filled up with zeros."""
    short = -data.shape[1] % WORD
    if short:
        data = np.hstack([data, np.zeros((len(data), short), dtype=np.uint8)])
    return np.ascontiguousarray(data).view(np.uint64)


def _head(tensor: Tensor) -> str:
    """Return the prefix of a row's bytes in a digest: its type and shape."""
    return f"T{tensor.dtype}{tuple(tensor.shape[1:])}"


def _bytes(tensor: Tensor) -> Array:
    """Return the rows' bytes, (rows, bytes of a row) of uint8."""
    if not tensor.numel():
        return np.empty((len(tensor), 0), dtype=np.uint8)
    flat = tensor.detach().cpu().contiguous().reshape(len(tensor), -1)
    flat = torch.view_as_real(flat).reshape(len(tensor), -1) if flat.is_complex() else flat
    return flat.view(torch.uint8).numpy()


def _plain(tensor: Tensor) -> Array:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy(force=True)


MEASURED_AT_ONCE = 1 << 22
"""Numbers up to which all are measured in one go."""


def measure(train: TensorSamples, *, by_channel: bool) -> dict[str, Any]:
    """Return mean and deviation (1 where nothing varies) of the first tensor's features, or of its channels."""
    over = (0, *range(2, train.base[0].dim())) if by_channel else (0,)
    if len(train) * train.base[0][:1].numel() <= MEASURED_AT_ONCE:
        numbers = train.column(0).double()
        mean, scale = numbers.mean(dim=over, keepdim=True)[0], numbers.std(dim=over, unbiased=False, keepdim=True)[0]
    else:
        mean, scale = _by_pieces(train, over)
    return {"mean": mean.tolist(), "scale": torch.where(scale > 0, scale, torch.ones_like(scale)).tolist()}


def _by_pieces(train: TensorSamples, over: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return mean and deviation without a wider copy of all rows: sums of what differs from a first guess."""
    inputs = TensorSamples(train.base[0], rows=train.rows)
    guess = total = squares = room = torch.zeros(())
    for start, (piece,) in pieces(inputs):
        if start == 0:
            room = piece.double()
        numbers = room[: len(piece)].copy_(piece)  # in the same memory each time, which the system would clear first
        if start == 0:
            guess = numbers.mean(dim=over, keepdim=True)
            total, squares = torch.zeros_like(guess), torch.zeros_like(guess)
        numbers -= guess
        total += numbers.sum(dim=over, keepdim=True)
        squares += numbers.square_().sum(dim=over, keepdim=True)
    count = len(train) * train.base[0][:1].numel() / total.numel()
    mean = total / count
    return (guess + mean)[0], (squares / count - mean.square()).clamp(min=0).sqrt()[0]
