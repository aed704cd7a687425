"""Failures of libraries and of the system, as errors of Trainwright.

Libraries name at most one of them. Both are in the frames that the exception passed through.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import sys
import zipfile
from pathlib import Path
from typing import Any

from trainwright.trainer.base.container import IN_A_WALL, KEPT_CLOSED
from trainwright.trainer.base.errors import (
    ConfigurationError,
    DataError,
    OutOfMemoryError,
    ReproducibilityError,
    StorageError,
    TrainwrightError,
    UserCodeError,
)

_REFUSED = re.compile(
    r"^(?:.*: )?([\w:<>~. ()=]+?) (?:does not have a deterministic implementation|defaults to a non-deterministic alg)",
    re.MULTILINE,
)
"""The whole name, which may have blanks; libraries put words and a colon before it."""

_DENIED = re.compile(r"(?=.*Permission denied).*?['\"](/[^'\"]+)['\"]", re.DOTALL)
_INSTEAD = (
    ("put_", "torch.Tensor.index_put_((indices,), values) on the flat tensor, with accumulate as it was"),
    ("upsample_linear1d", "F.interpolate(x.unsqueeze(2), size=(1, n), mode='bilinear').squeeze(2), or mode='nearest'"),
    ("upsample_bilinear2d_aa", "F.interpolate(x, size, mode='bilinear') without antialias, or mode='area'"),
    ("upsample_bicubic2d", "F.interpolate(x, size, mode='bilinear') without antialias, or mode='nearest'"),
    ("upsample", "torch.nn.functional.interpolate, called while deterministic algorithms are on, or mode='nearest'"),
    ("adaptive_avg_pool3d", "x.mean((2, 3, 4), keepdim=True), which is size 1, or strided convolutions"),
    ("adaptive_avg_pool", "x.mean((2, 3), keepdim=True), which is size 1; else AvgPool2d, whose windows are fixed"),
    ("avg_pool3d", "avg_pool2d in two steps, of x.flatten(1, 2) and then along the slices; or a strided convolution"),
    ("max_pool3d", "max_pool2d in two steps, of x.flatten(1, 2) and then along the slices; or a strided convolution"),
    ("adaptive_max_pool2d", "x.amax((2, 3), keepdim=True), which is size 1; else MaxPool2d, whose windows are fixed"),
    ("max_pool", "MaxPool2d, x.amax over the axes, or a strided convolution"),
    ("unpool", "a transposed convolution"),
    ("reflection_pad", "zero padding, F.pad(mode='replicate'), or indexing by the mirrored positions"),
    ("replication_pad", "F.pad(x, padding, mode='replicate'), called while deterministic algorithms are on"),
    ("grid_sampler", "resampling in the data set, before the model, so that nothing flows back through it"),
    (
        "nll_loss",
        "the terms and their mean: F.cross_entropy(output, target, reduction='none').sum() / (target != -100).sum(); "
        "or flatten output to (rows, classes) and target to (rows) before it",
    ),
    ("ctc_loss", "the same loss on the CPU: F.ctc_loss(log_probs.cpu(), ...)"),
    ("cumsum", "x @ torch.ones(n, n, device=x.device).triu(), the running sum along the last axis of n"),
    ("histc", "torch.bincount without weights of torch.bucketize(x, edges)"),
    ("bincount", "torch.zeros(n, device=x.device).index_add_(0, x, weights)"),
    ("median", "x.sort(dim), and the middle value"),
    ("kthvalue", "x.sort(dim), and its k-th value"),
    ("attention", "torch.nn.functional.scaled_dot_product_attention, which takes the plain kernel here"),
    ("embedding_bag", "Embedding, then amax over the axis"),
    ("index_reduce", "scatter_reduce with amax, amin, sum or mean"),
    ("scatter", "index_add_ or scatter_add_ of the terms; a product as the exponential of summed logarithms"),
)
"""Replacements for operations, by a part of torch's name for each: the first that fits. Each of them runs on CUDA."""


def refusal(error: BaseException) -> ReproducibilityError | None:
    """Return the clear error when torch refused an operation as non-deterministic, else None."""
    found = _REFUSED.search(str(error))
    if found is None:
        return None
    operation = found.group(1).strip()
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


FUNCTIONAL = ("torch", "nn", "functional.py")
LOOKED_UP = ("embedding", "embedding_bag")
COMPARED = ("cross_entropy", "nll_loss")


def outside_range(error: BaseException) -> TrainwrightError | None:
    """Return the explained error for an index that an embedding or a loss of classes has no place for; else None."""
    for name, held in _frames(error):
        weight, indices = held.get("weight"), held.get("input")
        if name in LOOKED_UP and isinstance(error, IndexError | RuntimeError) and _is_index(error):
            return _outside_vocabulary(indices, int(weight.shape[0])) if weight is not None else None
        if name in COMPARED and "out of bounds" in str(error):
            return _outside_classes(held.get("target"), indices)
    return None


def _is_index(error: BaseException) -> bool:
    return any(words in str(error) for words in ("out of range", "out of bounds", "not in the valid range"))


def _frames(error: BaseException) -> list[tuple[str, dict[str, Any]]]:
    """Return function and local variables of torch's own frames that the error passed through, outermost first."""
    found, step = [], error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if Path(code.co_filename).parts[-3:] == FUNCTIONAL:
            found.append((code.co_name, step.tb_frame.f_locals))
        step = step.tb_next
    return found


def _outside_vocabulary(indices: Any, size: int) -> TrainwrightError | None:
    bad = indices[(indices < 0) | (indices >= size)]
    if not len(bad):
        return None
    value, needed = int(bad.flatten()[0]), int(indices.max()) + 1
    return ConfigurationError(
        f"Index {value} is outside an embedding of {size} rows (0 to {size - 1}).",
        remedy=f"Build the embedding with at least {needed} rows: correct model.args, or let the model take "
        "`vocab_size`, to which the size of a text source's vocabulary is passed.",
        document="configs/your_code.md",
        details={"value": value, "size": size, "needed": needed},
    )


def _outside_classes(target: Any, output: Any) -> TrainwrightError | None:
    classes = int(output.shape[1 if output.dim() > 1 else 0])
    bad = target[((target < 0) | (target >= classes)) & (target != -100)]
    if not len(bad):
        return None
    value, needed = int(bad.flatten()[0]), int(target.max()) + 1
    return DataError(
        f"Target {value} is outside the output's {classes} classes (0 to {classes - 1}).",
        remedy=f"Give the model's last layer {needed} outputs (model.args), or number the labels from 0; targets "
        "of -100 do not count.",
        document="configs/losses.md",
        details={"value": value, "size": classes, "needed": needed},
    )


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|Cannot allocate memory|bad alloc", re.IGNORECASE)
_LOADER_DIED = re.compile(r"DataLoader worker \(pid\(?s?\)? ?[\d, ]+\) (is killed by signal|exited unexpectedly)")
_GATED = re.compile(r"GatedRepo|gated repo|private (?:or gated )?repo", re.IGNORECASE)
_BAD_LABEL = re.compile(r"Target -?\d+ is out of bounds|CUDA error: device-side assert")


def known_failure(error: BaseException) -> TrainwrightError | None:
    """Return the classified error for a library's exception, or None when it is not a known one."""
    if isinstance(error, TrainwrightError):
        return error
    return (
        _memory(error)
        or _walled(error)
        or _closed_login(error)
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
    full = isinstance(error, OSError) and error.errno in FULL
    if isinstance(error, sqlite3.OperationalError):
        full = any(words in str(error) for words in ("disk is full", "disk I/O error", "unable to open"))
    if "No space left on device" in str(error) or "File too large" in str(error):
        full = True  # safetensors and torch wrap the system's error
    if not full or isinstance(error, zipfile.BadZipFile):
        return None
    return StorageError(
        f"The run could not write its files: {str(error)[:300]}.",
        remedy="Free disk space: prune_checkpoints shows which weights can go. Then resume_training: the last intact "
        "checkpoint is kept.",
    )


def _walled(error: BaseException) -> TrainwrightError | None:
    """Return the named error where the wall round the worker refused a file that the user's account may open."""
    told = getattr(error, "filename", None) or next(iter(_DENIED.findall(str(error))), None) or _unread_module(error)
    if IN_A_WALL not in os.environ or not isinstance(told, str | bytes | os.PathLike):
        return None
    if isinstance(error, OSError) and error.errno not in {None, errno.EACCES}:
        return None
    named = os.path.abspath(os.fsdecode(told))  # noqa: PTH100 - as the code names it: a link leads elsewhere
    path = Path(os.path.realpath(named))
    there = next(one for one in (path, *path.parents) if one.exists())
    writes = there != path or _opens(path)
    if not os.access(there, os.W_OK if writes else os.R_OK):  # by its mode: Landlock bears on opening alone
        return None
    what, key = ("write", "writes") if writes else ("read", "reads")
    tried = f"The user's code tried to {what} {path}" + (f" ({named} leads there)" if named != str(path) else "")
    details = {"path": str(path)}
    if (remedy := _never_opened(path)) is not None:
        return UserCodeError(f"{tried}, which is never opened to user code.", remedy=remedy, details=details)
    if writes and path != there and str(path.parent) == os.environ[IN_A_WALL]:
        return _new_in_the_root(path)
    scratch = "Write below tempfile.gettempdir(), which is the run's own; or the" if writes else "The"
    return UserCodeError(
        f"{tried}: the wall round the worker lets it read its code root, data and libraries, and write its own run's "
        "folder.",
        remedy=f"{scratch} workspace's owner adds the folder to `walls: {{{key}: [{path.parent}]}}` in settings.yaml. "
        "The workspace's own files stay closed.",
        details=details,
    )


def _unread_module(error: BaseException) -> str | None:
    """Return where a module is that Python does not find, since it may not list the folder."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    places = (Path(folder, error.name.partition(".")[0] + end) for folder in sys.path for end in ("", ".py"))
    return next((str(one) for one in places if one.exists() and not _opens(one)), None)


def _never_opened(path: Path) -> str | None:
    """Return what to do instead where the wall keeps a path closed whatever folder around it is opened; else None."""
    root, kept = os.environ[IN_A_WALL], os.environ.get(KEPT_CLOSED, "").split(os.pathsep)
    around = [one for one in kept if one and path.is_relative_to(one)]
    if around == [root]:
        return (
            f"The server imports from {root} (PYTHONPATH, a .pth file, or `python -m` started there): start it without "
            "that, and the code may write there. Or write below tempfile.gettempdir(), which is the run's own."
        )
    if not around and not (str(path.parent) == root and path.name.startswith(".")):
        return None
    return (
        "Such are the workspace, logins and keys, and what others run or read: hidden names as .env and .git, the "
        "server's Python. Give what the code needs a plain name in its code root, or write to a folder there."
    )


def _closed_login(error: BaseException) -> TrainwrightError | None:
    """Return the named error where the hub asks for the login that the wall round the worker keeps closed."""
    if os.environ.get("HF_TOKEN_PATH") != os.devnull or not _GATED.search(f"{type(error).__name__}: {error}"):
        return None
    return UserCodeError(
        f"The hub wants a login, and the wall round the worker keeps its token closed: {str(error)[:300]}",
        remedy="The workspace's owner runs `hf auth login`, and lets user code read the token: "
        "`walls: {reads: [~/.cache/huggingface/token]}` in settings.yaml. Or fetch the files into the code root.",
    )


def _new_in_the_root(path: Path) -> UserCodeError:
    return UserCodeError(
        f"The user's code tried to make {path}: the workspace, the server's Python or your home lies in the code root, "
        "and there the wall round the worker lets it write what was there when the run began.",
        remedy=f"Make {path.name!r} there beforehand, as an empty folder or file, and start again; or write below "
        "tempfile.gettempdir(), which is the run's own. Beside a workspace outside of it, new names are open.",
        details={"path": str(path), "to_be_made": True},
    )


def _opens(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _label(error: BaseException) -> TrainwrightError | None:
    if not _BAD_LABEL.search(str(error)):
        return None
    return DataError(
        f"A label does not fit the model's classes: {str(error)[:200]}.",
        remedy="Labels must be 0 to classes - 1: correct the labels, or the number of outputs of the model.",
    )


def _loader(error: BaseException) -> TrainwrightError | None:
    is_told = isinstance(error, RuntimeError) and _LOADER_DIED.search(str(error))
    if not is_told and not _was_fetched_from_the_dead(error):
        return None
    return DataError(
        f"A loader worker died: {str(error)[:200]}.",
        remedy="Most often the system's memory ran out: lower loader.num_workers (0 fetches in the run's own process; "
        "the results are the same), or correct data code that ends its process; then start the run again.",
    )


def _was_fetched_from_the_dead(error: BaseException) -> bool:
    """Return whether a batch in shared memory could not be opened, since the process that holds it has ended."""
    step, passed = error.__traceback__, set()
    while step is not None:
        passed.add(Path(step.tb_frame.f_code.co_filename).parts[-2:])
        step = step.tb_next
    return isinstance(error, OSError | EOFError) and ("multiprocessing", "reductions.py") in passed


def _lone_sample(error: BaseException) -> TrainwrightError | None:
    if "Expected more than 1 value per channel when training" not in str(error):
        return None
    return ConfigurationError(
        f"A batch of one sample met batch normalisation: {str(error)[:160]}.",
        remedy="Set loader.drop_last true, or a loader.batch_size that leaves no single sample over.",
    )
