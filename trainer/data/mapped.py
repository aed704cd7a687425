"""Arrays of rows that lie in files and are mapped into memory: of a table that is larger than memory, a page at a time.

They are written some rows at a time into the data cache, and read only: nothing may change them in place. Whether a
table's rows are mapped depends on the table and not on the machine, so that the order of samples does not either.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import cache

MAPPED_FROM_BYTES = 1 << 30
"""Of rows as the samples hold them: from here on they are mapped."""
VERSION = 1
"""Of the files: entries of another version are not read."""
ABOUT = "about.json"

COPIED_AT_ONCE = 1 << 24
"""Bytes of rows."""

_FILES: dict[int, Path] = {}
"""Of the arrays that this process has mapped, by the address of their memory."""


@dataclass(frozen=True)
class Mapped:
    """Arrays of equally many rows, and what was found while they were written."""

    arrays: dict[str, Tensor]
    about: dict[str, Any]


def mapped(key: list[Any], write: Callable[[Rows], dict[str, Any]]) -> Mapped:
    """Return arrays from the data cache, written now where it has none.

    Args:
        key: JSON of all that decides the rows: digests of the sources, options.
        write: adds the rows some at a time, and returns JSON of what it found.
    """

    def make(folder: Path) -> None:
        with Rows(folder) as rows:
            about = write(rows)
        (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")

    folder = cache.current().made(json.dumps(["mapped rows", VERSION, *key], sort_keys=True), make)
    arrays = {path.stem: _opened(path) for path in sorted(folder.glob("*.npy"))}
    return Mapped(arrays, json.loads((folder / ABOUT).read_text(encoding="utf-8")))


def _opened(path: Path) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        found = torch.from_numpy(np.load(path, mmap_mode="r"))
    _FILES[found.data_ptr()] = path
    return found


def without(tensors: Sequence[Tensor], rows: Tensor) -> tuple[Tensor, ...]:
    """Return mapped tensors, (all rows, ...) each, as another entry of the cache has them: some rows are zeros there.

    Args:
        rows: which ones, (withheld,).

    Raises:
        DataError: there is no room for them.
    """
    paths = [_FILES[tensor.data_ptr()] for tensor in tensors]
    numbers = rows.to(torch.int64).sort().values.numpy()

    def write(into: Rows) -> dict[str, Any]:
        for path, tensor in zip(paths, tensors, strict=True):
            step = max(COPIED_AT_ONCE // max(tensor[:1].nbytes, 1), 1)
            for start in range(0, len(tensor), step):
                part = tensor[start : start + step].numpy().copy()
                first, last = np.searchsorted(numbers, [start, start + len(part)])
                part[numbers[first:last] - start] = 0
                into.add(**{path.stem: part})
        return {}

    of = [[path.parent.parent.parent.name, path.parent.parent.name, path.name] for path in paths]
    found = mapped(["without rows", of, digest_bytes(numbers.tobytes())], write)
    return tuple(found.arrays[path.stem] for path in paths)


class Rows:
    """Arrays that grow in files of a folder, `<name>.npy`, some rows at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, tuple[BinaryIO, Array]] = {}
        self._counts: dict[str, int] = {}

    def add(self, **parts: Array) -> None:
        """Add rows, (rows, ...), to every array. Raises DataError where there is no room for them."""
        for name, part in parts.items():
            try:
                if name not in self._open:
                    self._open[name] = (self.folder / f"{name}.npy").open("wb"), part[:0]
                    self._write_header(name, 0)
                    self._counts[name] = 0
                np.ascontiguousarray(part, dtype=self._open[name][1].dtype).tofile(self._open[name][0])
            except OSError as error:
                raise DataError(
                    f"The rows of a large table could not be written into the data cache: {error}.",
                    remedy="Free disk space: the rows take as many bytes there as float32 numbers do. The workspace's "
                    "owner bounds the cache with data_cache_bytes in settings.yaml.",
                ) from error
            self._counts[name] += len(part)

    def clear(self) -> None:
        """Begin anew."""
        for file, _ in self._open.values():
            file.close()
        self._open.clear()
        self._counts.clear()

    def _write_header(self, name: str, count: int) -> None:
        file, like = self._open[name]
        shape = (count, *like.shape[1:])
        file.seek(0)  # numpy leaves room for the number of rows to grow
        np.lib.format.write_array_header_1_0(
            file, {"descr": np.lib.format.dtype_to_descr(like.dtype), "fortran_order": False, "shape": shape}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for name, (file, _like) in self._open.items():
            if kind is None:
                self._write_header(name, self._counts[name])
            file.close()
