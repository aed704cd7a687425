"""Arrays in the user's own files, under the code root."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch

from trainwright.trainer.data.sources.loaded import Loaded
from trainwright.trainer.data.sources.tables import unreadable
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.errors import DataError


def load_npz(path: Path, *, inputs: str = "x", targets: str = "y", standardize: bool = False) -> Loaded:
    """Read two arrays of a NumPy archive: inputs (samples, ...) and targets (samples, ...). No pickle is read.

    Raises:
        DataError: unreadable, empty, a missing array, or arrays of different lengths.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [name for name in (inputs, targets) if name not in archive.files]
            if missing:
                raise DataError(
                    f"{path.name} has no array {missing[0]!r}; it has {', '.join(archive.files) or 'none'}.",
                    remedy="Name the arrays with data.args.inputs and data.args.targets.",
                )
            x, y = archive[inputs], archive[targets]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, TypeError) as error:
        raise unreadable(path, error) from error
    if x.dtype.kind not in "fiub" or y.dtype.kind not in "fiub" or not len(x) or len(x) != len(y):
        raise DataError(
            f"{path.name}: inputs {x.dtype}{x.shape} and targets {y.dtype}{y.shape} must be numbers, equally many, "
            "at least one.",
            remedy="Write the archive again with numpy.savez(path, x=..., y=...).",
        )
    classification = y.dtype.kind in "iub"
    samples = TensorSamples(
        torch.from_numpy(x.astype(np.float32) if x.dtype.kind in "fb" else x.astype(np.int64)),
        torch.from_numpy(y.astype(np.int64 if classification else np.float32)),
    )
    names = [str(label) for label in range(int(y.max()) + 1)] if classification and y.ndim == 1 else None
    return Loaded(samples, names, standardize=standardize, files=[path])
