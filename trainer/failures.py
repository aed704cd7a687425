"""Exceptions of libraries and the system, told as errors of ours."""

from __future__ import annotations

import errno
import re
import sqlite3
import zipfile

from trainwright.trainer.base.nondeterministic import refusal
from trainwright.trainer.errors import ConfigurationError, DataError, OutOfMemoryError, StorageError, TrainwrightError
from trainwright.trainer.out_of_range import outside_range

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|Cannot allocate memory|bad alloc", re.IGNORECASE)
_LOADER_DIED = re.compile(r"DataLoader worker \(pid\(?s?\)? ?[\d, ]+\) (is killed by signal|exited unexpectedly)")
_BAD_LABEL = re.compile(r"Target -?\d+ is out of bounds|CUDA error: device-side assert")


def known_failure(error: BaseException) -> TrainwrightError | None:
    """Return the classified error that stands for a library's exception, or None when it is not a known one."""
    if isinstance(error, TrainwrightError):
        return error
    return (
        _memory(error)
        or _storage(error)
        or refusal(error)
        or outside_range(error)
        or _label(error)
        or _loader(error)
        or _lone_sample(error)
    )


def _memory(error: BaseException) -> TrainwrightError | None:
    by_type = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if not by_type and not (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
        return None
    return OutOfMemoryError(
        f"Memory ran out: {str(error)[:300] or type(error).__name__}.",
        remedy="Halve loader.batch_size and double training.accumulation_steps (the same update in half the memory), "
        "or use training.precision bf16.",
    )


def _storage(error: BaseException) -> TrainwrightError | None:
    full = isinstance(error, OSError) and error.errno in _FULL
    if isinstance(error, sqlite3.OperationalError):
        full = any(words in str(error) for words in ("disk is full", "disk I/O error", "unable to open"))
    if "No space left on device" in str(error) or "File too large" in str(error):
        full = True  # safetensors and torch wrap the system's error
    if not full or isinstance(error, zipfile.BadZipFile):
        return None
    return StorageError(
        f"The run could not write its files: {str(error)[:300]}.",
        remedy="Free disk space: prune_checkpoints shows which weights can go. Then resume_training: the last whole "
        "checkpoint is kept.",
    )


def _label(error: BaseException) -> TrainwrightError | None:
    if not _BAD_LABEL.search(str(error)):
        return None
    return DataError(
        f"A label does not fit the model's classes: {str(error)[:200]}.",
        remedy="Labels must be 0 to classes - 1: correct the labels, or the number of outputs of the model.",
    )


def _loader(error: BaseException) -> TrainwrightError | None:
    if not isinstance(error, RuntimeError) or not _LOADER_DIED.search(str(error)):
        return None
    return DataError(
        f"A loader worker died: {str(error)[:200]}.",
        remedy="Most often the system's memory ran out: lower loader.num_workers (0 fetches in the run's own process; "
        "the results are the same), or correct data code that ends its process; then start the run again.",
    )


def _lone_sample(error: BaseException) -> TrainwrightError | None:
    if "Expected more than 1 value per channel when training" not in str(error):
        return None
    return ConfigurationError(
        f"A batch of one sample met batch normalisation: {str(error)[:160]}.",
        remedy="Set loader.drop_last true, or a loader.batch_size that leaves no single sample over.",
    )
