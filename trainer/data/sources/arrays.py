"""Arrays in the user's files, under the code root."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import PATH, Files, Loaded, Name, unreadable

if TYPE_CHECKING:
    import numpy as np


READ_BYTES = 1 << 20
NAMED = 20
"""Samples that an error names."""
MAX_CLASSES = 100_000
"""Whole numbers as targets that go further are not named as classes."""


class Npz(Files):
    """Two arrays of a NumPy archive."""

    name: ClassVar[str] = "npz"
    endings: ClassVar[tuple[str, ...]] = ("npz",)

    path: Name
    inputs: Name = "x"
    targets: Name = "y"
    standardize: bool = False

    def load(self, code_root: Path, split: SplitSection) -> Loaded:  # noqa: ARG002 - of the protocol
        """Return two arrays: inputs (samples, ...) and targets (samples, ...). No pickle is read.

        Raises:
            DataError: unreadable, empty, a missing array, or arrays of different lengths.
        """
        import numpy as np
        import torch

        from trainwright.trainer.data.preprocessing import ToStandardize
        from trainwright.trainer.data.tensors import TensorSamples

        path = confine(self.path, code_root, key=PATH)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                missing = [name for name in (self.inputs, self.targets) if name not in archive.files]
                if missing:
                    raise DataError(
                        f"{path.name} has no array {missing[0]!r}; it has {', '.join(archive.files) or 'none'}.",
                        remedy="Name the arrays with data.args.inputs and data.args.targets.",
                    )
                x, y = (_read(archive, name, whole) for name, whole in ((self.inputs, "iu"), (self.targets, "iub")))
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, TypeError, AttributeError) as error:
            raise unreadable(path, error) from error
        if x.dtype.kind not in "fiub" or y.dtype.kind not in "fiub" or not x.size or not y.ndim or len(x) != len(y):
            raise DataError(
                f"{path.name}: inputs {x.dtype}{x.shape} and targets {y.dtype}{y.shape} must be numbers, equally many, "
                "at least one.",
                remedy="Write the archive again with numpy.savez(path, x=..., y=...).",
            )
        if self.asked.of_loss == "regression":
            y = y.astype(np.float32, copy=False)
        if y.ndim == 1:
            _require_learnable(path, y)
        classification = y.dtype.kind in "iub"
        named = classification and y.ndim == 1 and y.max() < MAX_CLASSES
        names = [str(label) for label in range(int(y.max()) + 1)] if named else None
        samples = TensorSamples(torch.from_numpy(x), torch.from_numpy(y))
        return Loaded(samples, names, preprocessing=ToStandardize() if self.standardize else None, files=[path])


def _require_learnable(path: Path, targets: np.ndarray[Any, Any]) -> None:
    """Check single targets, (samples,). Raises DataError for negative classes, one class, or one number throughout."""
    import numpy as np

    is_whole = targets.dtype.kind in "iub"
    negative = np.flatnonzero(targets < 0) if is_whole else np.empty(0, dtype=np.int64)
    if len(negative):
        rows = [int(row) for row in negative[:NAMED]]
        raise DataError(
            f"{path.name}: {len(negative)} targets are negative, first {targets[rows[0]]} in sample {rows[0]} (samples "
            f"{', '.join(map(str, rows))}); classes are numbered from 0.",
            remedy="Number the classes from 0 and write the archive again; float targets are numbers to predict.",
            details={"rows": rows, "count": len(negative)},
        )
    if bool((targets == targets[0]).all()):
        what = f"one class only ({targets[0]})" if is_whole else f"one value throughout ({targets[0]})"
        raise DataError(
            f"{path.name}: the targets have {what}, so nothing can be learned.",
            remedy="Name another array with data.args.targets, or add samples with other targets.",
        )


def _read(archive: Any, name: str, whole: str) -> Any:
    """Return an array as int64 where its kind is in `whole`, other numbers as float32; anything else unchanged.

    Read some numbers at a time: float64 is never in memory beside its float32 copy.
    """
    import numpy as np

    with archive.zip.open(f"{name}.npy" if f"{name}.npy" in archive.zip.namelist() else name) as file:
        version = np.lib.format.read_magic(file)
        headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_columns, kind = headers[version](file) if version in headers else ((), True, np.dtype(object))
        held = archive.zip.getinfo(file.name).file_size - file.tell()
        if kind.kind in "fiub" and (promised := math.prod(shape) * kind.itemsize) > held:
            raise ValueError(
                f"the array {name!r} promises {promised:,} bytes of numbers {shape}, and {held:,} are there"
            )
        if by_columns or kind.kind not in "fiub":
            array = archive[name]
            return array.astype(_type_for(array.dtype, whole)) if array.dtype.kind in "fiub" else array
        numbers = np.empty(shape, dtype=_type_for(kind, whole))
        flat, done = numbers.reshape(-1), 0
        with np.errstate(over="ignore"):  # infinite then, which the check of the samples says
            while done < flat.size:
                read = file.read(min(READ_BYTES, (flat.size - done) * kind.itemsize))
                some = np.frombuffer(read[: len(read) // kind.itemsize * kind.itemsize], dtype=kind)
                if not len(some):
                    raise ValueError(f"the array {name!r} ends after {done} of {flat.size} numbers")
                flat[done : done + len(some)] = some
                done += len(some)
        file.read(1)  # its end, where the archive's checksum is compared
    return numbers


def _type_for(kind: Any, whole: str) -> type[np.generic]:
    import numpy as np

    return np.int64 if kind.kind in whole else np.float32
