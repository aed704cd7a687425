"""Array file: rows written one after the other into a .npy file, whose header is known only at the end."""

from __future__ import annotations

import array
import struct
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError

HEADER_BYTES = 1024
"""Room for the header, a multiple of 64 as the format asks."""


class ArrayFile:
    """Writes the rows of one array; rows of different shapes one behind the other, with their shapes beside them."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._file = path.open("xb")
        self._file.write(bytes(HEADER_BYTES))
        self.rows = self.bytes = 0
        self._dtype: np.dtype[Any] | None = None
        self._shape: tuple[int, ...] = ()
        """Of the first row."""
        self._shapes: array.array[int] | None = None
        """Of every row, one behind the other; None while all are alike."""

    def add(self, rows: Array) -> None:
        """Add rows of one shape, (rows, ...). Raises DataError where they do not fit those before."""
        if self._dtype is None:
            self._dtype, self._shape = rows.dtype, rows.shape[1:]
        if rows.dtype != self._dtype or rows.ndim != len(self._shape) + 1:
            raise DataError(
                f"`{self.name}` is {rows.dtype} with {rows.ndim - 1} dimensions in row {self.rows}, and {self._dtype} "
                f"with {len(self._shape)} in the first.",
                remedy="Return the same type and number of dimensions for every sample.",
            )
        if self._shapes is None and rows.shape[1:] != self._shape:
            self._shapes = array.array("q", self._shape * self.rows)
        if self._shapes is not None:
            self._shapes.extend(rows.shape[1:] * len(rows))
        self._file.write(np.ascontiguousarray(rows).data if rows.size else b"")
        self.rows += len(rows)
        self.bytes += rows.nbytes

    def close(self) -> None:
        """Write the header, and the shapes where rows differ in them."""
        dtype = self._dtype or np.dtype(np.float32)
        shape = (self.rows, *self._shape) if self._shapes is None else (self.bytes // dtype.itemsize,)
        self._file.seek(0)
        self._file.write(_header(dtype, shape))
        self._file.close()
        if self._shapes is not None:
            np.save(shapes_beside(self.path), np.array(self._shapes, dtype="<i8").reshape(self.rows, -1))

    def remove(self) -> None:
        """Remove what was written."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def shapes_beside(path: Path) -> Path:
    """Return where the shapes of rows are that are not all alike."""
    return path.with_suffix(".shapes.npy")


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    described = repr({"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    room = HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", room) + f"{described:<{room - 1}}\n".encode("latin1")
